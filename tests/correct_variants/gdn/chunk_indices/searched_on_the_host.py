"""Searches each row's sequence among the ends, with numpy, and writes to pinned memory."""

import numpy as np

from debubble.accelerator import current


def prepare_chunk_indices(cu_seqlens, cu_seqlens_cpu, chunk_size=64):
    starts = cu_seqlens_cpu.numpy().astype(np.int64)
    ends = np.cumsum((np.diff(starts) + chunk_size - 1) // chunk_size)
    total = int(ends[-1]) if len(ends) else 0
    staged = torch.empty((total, 2), dtype=torch.int32, pin_memory=current().pin_memory)
    if total:
        row = np.arange(total)
        sequence = np.searchsorted(ends, row, side="right")
        rows = staged.numpy()
        rows[:, 0] = sequence
        rows[:, 1] = row - np.concatenate([[0], ends])[sequence]
    return torch.empty_like(staged, device=cu_seqlens.device).copy_(staged, non_blocking=True)
