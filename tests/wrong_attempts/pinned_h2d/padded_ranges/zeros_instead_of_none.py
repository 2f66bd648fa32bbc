"""Uploads a tensor of zeros when no range matters.

fails: test_nothing_to_say_is_none
says: None says that no range matters
"""

import torch

from debubble.accelerator import current


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = [list((ranges or {}).get(i) or [(0, 0)]) for i in range(num_seqs)]
    shape = (num_seqs, max(map(len, rows)), 2)
    padded = torch.zeros(shape, dtype=torch.int32, pin_memory=current().pin_memory)
    for row, spans in enumerate(rows):
        padded[row, : len(spans)] = torch.tensor(spans)
    return padded.to(device, non_blocking=True)
