"""Fills the rows of memory that is not initialised, and leaves the padding as it is.

fails: test_steps_in_a_row_all_arrive
may fail: test_each_request_has_its_row
may fail: test_a_dict_that_changed_has_other_rows
on: sim
says: `torch.empty` returns memory as it is
"""


def compute_mm_prefix_range_tensor(ranges, num_seqs, device):
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    shape = num_seqs, max(map(len, rows), default=0), 2
    padded = torch.empty(shape, dtype=torch.int32, pin_memory=current().pin_memory)
    for row, spans in enumerate(rows):
        if spans:
            padded[row, : len(spans)] = torch.tensor(spans, dtype=torch.int32)
    return padded.to(device, non_blocking=True)
