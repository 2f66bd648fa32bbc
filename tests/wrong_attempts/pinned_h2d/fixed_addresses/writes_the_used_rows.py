"""Writes the rows of this step, and leaves the others as they are.

fails: test_nothing_of_a_larger_step_stays_behind
says: still hold the ranges of an earlier, larger one
"""

import torch

from debubble.accelerator import current


def rows_of(ranges, num_seqs):
    rows = [list((ranges or {}).get(i) or [(0, 0)]) for i in range(num_seqs)]
    return None if all(row == [(0, 0)] for row in rows) else rows


def padded_rows(shape, rows):
    padded = torch.zeros(shape, dtype=torch.int32, pin_memory=current().pin_memory)
    for row, spans in enumerate(rows or []):
        padded[row, : len(spans)] = torch.tensor(spans)
    return padded


class PrefixRangeBuffer:
    def __init__(self, max_num_seqs, max_ranges, device, *, steps_in_flight=2, for_graphs=False):
        self.tensor = torch.zeros(max_num_seqs, max_ranges, 2, dtype=torch.int32, device=device)
        self.for_graphs = for_graphs

    def update(self, ranges, num_seqs):
        rows = rows_of(ranges, num_seqs)
        if rows is None and not self.for_graphs:
            return None
        target = self.tensor[:num_seqs]
        target.copy_(padded_rows(target.shape, rows), non_blocking=True)
        return target
