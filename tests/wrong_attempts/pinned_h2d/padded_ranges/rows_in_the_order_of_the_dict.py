"""Makes a row for each entry of the dict and not for each request.

fails: test_each_request_has_its_row
says: Row i belongs to request i
"""

import torch

from debubble.accelerator import current


def rows_of(ranges, num_seqs):
    rows = [list((ranges or {}).get(i) or [(0, 0)]) for i in range(num_seqs)]
    return None if all(row == [(0, 0)] for row in rows) else rows


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    if rows_of(ranges, num_seqs) is None:
        return None
    rows = list(ranges.values())
    shape = (len(rows), max(map(len, rows)), 2)
    padded = torch.zeros(shape, dtype=torch.int32, pin_memory=current().pin_memory)
    for row, spans in enumerate(rows):
        if spans:
            padded[row, : len(spans)] = torch.tensor(spans)
    return padded.to(device, non_blocking=True)
