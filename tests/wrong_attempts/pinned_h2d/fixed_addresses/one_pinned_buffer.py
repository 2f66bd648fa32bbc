"""Fills the same pinned tensor in each step, while the last step's copy may still read it.

fails: test_each_of_two_steps_in_flight_reads_its_own_ranges
may fail: test_each_step_has_its_rows
says: Did the second step's ranges overwrite a pinned buffer
"""

import torch

from debubble.accelerator import current


def rows_of(ranges, num_seqs):
    rows = [list((ranges or {}).get(i) or [(0, 0)]) for i in range(num_seqs)]
    return None if all(row == [(0, 0)] for row in rows) else rows


class PrefixRangeBuffer:
    def __init__(self, max_num_seqs, max_ranges, device, *, steps_in_flight=2, for_graphs=False):
        shape = (max_num_seqs, max_ranges, 2)
        self.tensor = torch.zeros(shape, dtype=torch.int32, device=device)
        self.pinned = torch.zeros(shape, dtype=torch.int32, pin_memory=current().pin_memory)
        self.for_graphs = for_graphs

    def update(self, ranges, num_seqs):
        rows = rows_of(ranges, num_seqs)
        if rows is None and not self.for_graphs:
            return None
        self.pinned.zero_()
        for row, spans in enumerate(rows or []):
            self.pinned[row, : len(spans)] = torch.tensor(spans)
        self.tensor.copy_(self.pinned, non_blocking=True)
        return self.tensor[:num_seqs]
