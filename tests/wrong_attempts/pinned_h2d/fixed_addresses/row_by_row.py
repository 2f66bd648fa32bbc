"""Clears the tensor, then copies the spans of one row after the other.

fails: test_a_step_is_one_upload_that_nobody_waits_for
says: 8 pinned uploads
says: What costs is each copy, not its bytes
"""

import torch

from debubble.accelerator import current


def rows_of(ranges, num_seqs):
    rows = [list((ranges or {}).get(i) or [(0, 0)]) for i in range(num_seqs)]
    return None if all(row == [(0, 0)] for row in rows) else rows


class PrefixRangeBuffer:
    def __init__(self, max_num_seqs, max_ranges, device, *, steps_in_flight=2, for_graphs=False):
        self.tensor = torch.zeros(max_num_seqs, max_ranges, 2, dtype=torch.int32, device=device)
        self.for_graphs = for_graphs

    def update(self, ranges, num_seqs):
        rows = rows_of(ranges, num_seqs)
        if rows is None and not self.for_graphs:
            return None
        self.tensor.zero_()
        for row, spans in enumerate(rows or []):
            pinned = torch.tensor(spans, dtype=torch.int32, pin_memory=current().pin_memory)
            self.tensor[row, : len(spans)].copy_(pinned, non_blocking=True)
        return self.tensor[:num_seqs]
