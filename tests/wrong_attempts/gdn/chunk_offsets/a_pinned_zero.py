"""Sends the zero from pinned memory: nobody waits, and it still travels.

fails: test_nothing_travels
says: 1 pinned upload
says: saves the wait but not the copy
"""

import torch

from debubble.accelerator import current


def prepare_chunk_offsets(cu_seqlens, chunk_size=64):
    chunks = (cu_seqlens.diff() + chunk_size - 1) // chunk_size
    zero = torch.zeros(1, dtype=torch.int64, pin_memory=current().pin_memory)
    zero = zero.to(cu_seqlens.device, non_blocking=True)
    return torch.cat([zero, chunks.cumsum(0)])
