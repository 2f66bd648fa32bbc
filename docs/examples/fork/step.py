"""Four decoding steps of eight requests, as a model runner makes them."""

import torch
from metadata import begun, build

import debubble

requests = 8
block_table = torch.arange(requests * 4, device="cuda").view(requests, 4)
computed = torch.zeros(requests, dtype=torch.int64, device="cuda")
for step in range(4):
    metadata = build([5] * requests if step == 0 else [1] * requests, computed, block_table)
    new = begun(computed)
    tokens = torch.randint(1000, (requests,), device="cuda")
    computed += metadata.starts.diff()
    with debubble.allow_host_sync():
        print(tokens.tolist())
