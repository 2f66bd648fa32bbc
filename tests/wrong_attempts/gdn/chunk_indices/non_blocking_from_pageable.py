"""Makes the table on the host, and sends it without blocking, but from pageable memory.

fails: test_nobody_waits
says: 1 pageable upload
says: Upload from pinned memory
"""

import torch


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    chunks = (cu_seqlens_cpu.diff() + chunk_size - 1) // chunk_size
    sequence = torch.repeat_interleave(chunks)
    chunk = torch.arange(len(sequence)) - (chunks.cumsum(0) - chunks)[sequence]
    rows = torch.stack([sequence, chunk], dim=1).int()
    return rows.to(cu_seqlens.device, non_blocking=True)
