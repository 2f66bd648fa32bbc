"""Counts where a sequence begins: the formula of many a kernel library.

fails: test_each_chunk_has_its_row
fails: test_chunks_may_be_of_another_size
says: knows only sequences that have a chunk
"""

import torch

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    chunks = (cu_seqlens_cpu.diff() + chunk_size - 1) // chunk_size
    before = (chunks.cumsum(0) - chunks).repeat_interleave(chunks)
    chunk = torch.arange(len(before)) - before
    rows = torch.stack([(chunk == 0).cumsum(0) - 1, chunk], dim=1)
    staged = torch.empty(rows.shape, dtype=torch.int32, pin_memory=current().pin_memory)
    return staged.copy_(rows).to(cu_seqlens.device, non_blocking=True)
