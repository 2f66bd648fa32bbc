"""The range tensor of all steps: its address never changes, so a captured graph can read it."""

from __future__ import annotations

import torch

from solutions.common.staging_ring import StagingRing

from .metadata import fill_rows
from .ranges import PrefixRanges, Span, check_ranges, ranges_by_row


class PrefixRangeBuffer:
    """[max_num_seqs, max_ranges, 2] int32 on the device, with the capacity of the largest step.

    A captured graph reads the buffer in every replay. With `for_graphs` a step without ranges is
    zeros too; otherwise it is None and uploads nothing.
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
        shape = (max_num_seqs, max_ranges, 2)
        self.tensor = torch.zeros(shape, dtype=torch.int32, device=device)
        self.staging = StagingRing(shape, torch.int32, depth=steps_in_flight)
        self.for_graphs = for_graphs
        self.holds_ranges = False

    def update(self, ranges: PrefixRanges | None, num_seqs: int) -> torch.Tensor | None:
        """[num_seqs, max_ranges, 2], the first rows of the buffer; zero padded. At most one upload.

        Queued on the current stream, behind the kernels that still read the last step's ranges.
        """
        check_ranges(ranges)
        rows = ranges_by_row(ranges, num_seqs)
        self._check_capacity(rows or [], num_seqs)
        if rows is not None or (self.for_graphs and self.holds_ranges):
            self._upload(rows or [])
        return self.tensor[:num_seqs] if rows is not None or self.for_graphs else None

    def _upload(self, rows: list[list[Span]]) -> None:
        # All rows, so that nothing of an earlier, larger step stays behind.
        padded = torch.zeros(self.tensor.shape, dtype=torch.int32)
        fill_rows(padded, rows)
        self.staging.upload(padded, self.tensor)
        self.holds_ranges = bool(rows)

    def _check_capacity(self, rows: list[list[Span]], num_seqs: int) -> None:
        max_num_seqs, max_ranges, _ = self.tensor.shape
        if num_seqs > max_num_seqs:
            raise ValueError(f"{num_seqs} sequences: this buffer holds {max_num_seqs}")
        for request, spans in enumerate(rows):
            if len(spans) > max_ranges:
                raise ValueError(
                    f"request {request} has {len(spans)} ranges: this buffer holds {max_ranges}"
                )
