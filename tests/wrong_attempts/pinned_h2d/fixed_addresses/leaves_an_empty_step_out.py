"""Writes nothing in a step without ranges.

fails: test_a_step_without_ranges_replays_zeros
says: With for_graphs a step without ranges has to write zeros
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
        if rows is None:
            return self.tensor[:num_seqs] if self.for_graphs else None
        self.tensor.copy_(padded_rows(self.tensor.shape, rows), non_blocking=True)
        return self.tensor[:num_seqs]
