"""Takes the lengths from the host, and sends the ids without blocking, but from pageable memory.

fails: test_nobody_waits
says: 1 pageable upload
says: unless it comes from pinned memory
"""

import torch


def _init_model_kwargs(token_type_starts, seq_lens, optimistic_seq_lens_cpu, num_reqs):
    ids = [torch.empty(0, dtype=torch.int32)]
    for request, length in enumerate(optimistic_seq_lens_cpu[:num_reqs].tolist()):
        start = token_type_starts.get(request, length)
        ids.append((torch.arange(length) >= start).int())
    return {"token_type_ids": torch.cat(ids).to(seq_lens.device, non_blocking=True)}
