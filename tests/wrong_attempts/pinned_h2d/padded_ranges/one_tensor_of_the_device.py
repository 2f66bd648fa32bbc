"""Keeps one tensor on the device for each shape, and copies to it.

fails: test_results_stay_as_they_are
says: to have memory of its own
"""

TENSORS = {}


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    shape = num_seqs, max(map(len, rows), default=0), 2
    padded = torch.zeros(shape, dtype=torch.int32, pin_memory=current().pin_memory)
    fill_rows(padded, rows)
    if shape not in TENSORS:
        TENSORS[shape] = torch.empty(shape, dtype=torch.int32, device=device)
    return TENSORS[shape].copy_(padded, non_blocking=True)
