"""Pads with numpy, and pins a copy of that."""

import numpy as np


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    padded = np.zeros((num_seqs, max(map(len, rows)), 2), dtype=np.int32)
    for row, spans in enumerate(rows):
        padded[row, : len(spans)] = spans
    host = torch.from_numpy(padded)
    if current().pin_memory:
        host = host.pin_memory()
    return host.to(device, non_blocking=True)
