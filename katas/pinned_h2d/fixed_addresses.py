"""Addresses that survive a replay (chapter 01, medium, 20 minutes).

A captured graph reads the same memory in every replay: the memory that it read when it was
captured. The class below makes a new tensor for each step, so a replay goes on reading the ranges
of the captured step.

Make one tensor on the device for all steps, as large as the largest step, and let `update` write
each step's ranges into it. A graph may read rows after those of the step. These rows must be zero,
not what a larger step left there. Pin the memory if the platform can:
`pin_memory=current().pin_memory`.

You need to know that a captured graph remembers a tensor's address, and, from `staging_ring`, when
a pinned buffer may be written again.

Edit this file, then run

    .venv/bin/pytest katas/pinned_h2d/test_fixed_addresses.py

Stuck?         .venv/bin/debubble hint fixed_addresses
Start afresh?  .venv/bin/debubble reset fixed_addresses
"""

from __future__ import annotations

import torch

from debubble.accelerator import current
from katas.pinned_h2d.given import PrefixRanges, ranges_by_row


# Yours to edit, from here on.
class PrefixRangeBuffer:
    """A tensor [max_num_seqs, max_ranges, 2] int32 on the device that holds the ranges of any step.

    A captured graph reads this memory in every replay. So with `for_graphs` a step without ranges
    writes zeros to it; otherwise `update` returns None for such a step, and uploads nothing. Up to
    `steps_in_flight` steps are queued without a wait; an `update` after them may wait for the first
    of them.
    """

    def __init__(
        self,
        max_num_seqs: int,
        max_ranges: int,
        device: torch.device,
        *,
        steps_in_flight: int = 2,
        for_graphs: bool = False,
    ) -> None:
        self.max_num_seqs, self.max_ranges = max_num_seqs, max_ranges
        self.device = device
        self.for_graphs = for_graphs

    def update(self, ranges: PrefixRanges | None, num_seqs: int) -> torch.Tensor | None:
        """Writes a step's ranges, and returns the first rows of the buffer, [num_seqs, max_ranges,
        2], zero padded. Takes at most one upload.

        The upload is queued on the current stream, after the kernels that still read the last
        step's ranges. `ranges` maps a row to its ranges; rows from `num_seqs` on are left out.
        Raises ValueError for more than max_num_seqs rows, and for a row with more than max_ranges
        ranges.
        """
        rows = ranges_by_row(ranges, num_seqs)
        if rows is None and not self.for_graphs:
            return None
        shape = (num_seqs, self.max_ranges, 2)
        padded = torch.zeros(shape, dtype=torch.int32, pin_memory=current().pin_memory)
        for row, spans in enumerate(rows or []):
            padded[row, : len(spans)] = torch.tensor(spans)
        return padded.to(self.device, non_blocking=True)
