"""Copies without blocking, but from pageable memory.

fails: test_the_upload_is_pinned_and_nobody_waits
says: 1 pageable upload
says: That is a bubble
"""

import torch


def rows_of(ranges, num_seqs):
    rows = [list((ranges or {}).get(i) or [(0, 0)]) for i in range(num_seqs)]
    return None if all(row == [(0, 0)] for row in rows) else rows


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = rows_of(ranges, num_seqs)
    if rows is None:
        return None
    padded = torch.zeros(num_seqs, max(map(len, rows)), 2, dtype=torch.int32)
    for row, spans in enumerate(rows):
        padded[row, : len(spans)] = torch.tensor(spans)
    return padded.to(device, non_blocking=True)
