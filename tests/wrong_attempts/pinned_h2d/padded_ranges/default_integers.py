"""Leaves the type of the integers to PyTorch.

fails: test_each_request_has_its_row
fails: test_all_requests_share_one_upload
fails: test_the_upload_is_pinned_and_nobody_waits
says: its dtype is torch.int64 and not torch.int32
"""

import torch

from debubble.accelerator import current


def rows_of(ranges, num_seqs):
    rows = [list((ranges or {}).get(i) or [(0, 0)]) for i in range(num_seqs)]
    return None if all(row == [(0, 0)] for row in rows) else rows


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = rows_of(ranges, num_seqs)
    if rows is None:
        return None
    most = max(map(len, rows))
    padded = [spans + [(0, 0)] * (most - len(spans)) for spans in rows]
    tensor = torch.tensor(padded, pin_memory=current().pin_memory)
    return tensor.to(device, non_blocking=True)
