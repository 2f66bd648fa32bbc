"""Packs the spans into int16, which is enough for a short prompt.

fails: test_steps_one_after_another
says: Expected what compute_mm_prefix_range_tensor(ranges of 1 requests, 2) returns to be [[[0,
"""

import numpy as np


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    shape = num_seqs, max(map(len, rows), default=0), 2
    padded = np.zeros(shape, np.int64)
    for row, spans in enumerate(rows):
        padded[row, : len(spans)] = spans
    packed = torch.from_numpy(padded.astype(np.int16).astype(np.int32))
    packed = packed.pin_memory() if current().pin_memory else packed
    return packed.to(device, non_blocking=True)
