"""Brings a step's ranges to the device as one padded tensor, by one upload from pinned memory.

`compute_mm_prefix_range_tensor` makes a new tensor, `PrefixRangeBuffer` writes to a tensor with a
fixed address, and `range_tensors_by_micro_batch` shares one upload among micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import torch

from debubble.accelerator import current
from solutions.common.staging_ring import StagingRing

from .model.batch import Batch
from .ranges import PrefixRanges, Span, check_ranges, ranges_by_row, spans_of, touches

Upload = Callable[[PrefixRanges | None, int], torch.Tensor | None]
"""A function of ranges and num_seqs that returns the ranges as a tensor on the device, [num_seqs,
max_ranges, 2] int32, or None if the step needs none."""


def compute_mm_prefix_range_tensor(
    ranges: PrefixRanges | None, num_seqs: int, device: torch.device
) -> torch.Tensor | None:
    """Returns [num_seqs, max_ranges, 2] int32 on the device, zero padded; None without ranges."""
    # As in vLLM, and an exercise. The runner uses a PrefixRangeBuffer instead, which pins once:
    # pinning memory in each step may stall.
    check_ranges(ranges)
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    padded = torch.zeros(
        num_seqs,
        max(len(spans) for spans in rows),
        2,
        dtype=torch.int32,
        pin_memory=current().pin_memory,
    )
    fill_rows(padded, rows)
    # The buffer is fresh, so it may be dropped at once: PyTorch keeps it until its copy is done.
    return padded.to(device, non_blocking=True)


def fill_rows(padded: torch.Tensor, rows: Sequence[Sequence[Span]]) -> None:
    """Writes the spans of rows[i] to the start of row i of `padded`, [num_seqs, max_ranges, 2]
    int32 zeros on the host."""
    counts = np.array([*map(len, rows)], np.int64)
    numbers = [*chain.from_iterable(chain.from_iterable(rows))]
    is_span = np.arange(padded.shape[1]) < counts[:, None]
    padded.numpy()[: len(rows)][is_span] = np.fromiter(numbers, np.int32).reshape(-1, 2)


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
        shape = (max_num_seqs, max_ranges, 2)
        self.tensor = torch.zeros(shape, dtype=torch.int32, device=device)
        self.staging = StagingRing(shape, torch.int32, depth=steps_in_flight)
        self.for_graphs = for_graphs
        self.holds_ranges = False

    def update(self, ranges: PrefixRanges | None, num_seqs: int) -> torch.Tensor | None:
        """Writes a step's ranges, and returns the first rows of the buffer, [num_seqs, max_ranges,
        2], zero padded. Takes at most one upload.

        The upload is queued on the current stream, after the kernels that still read the last
        step's ranges. `ranges` maps a row to its ranges; rows from `num_seqs` on are left out.
        Raises ValueError for more than max_num_seqs rows, and for a row with more than max_ranges
        ranges.
        """
        check_ranges(ranges)
        rows = ranges_by_row(ranges, num_seqs)
        self._check_capacity(rows or [], num_seqs)
        if rows is not None or (self.for_graphs and self.holds_ranges):
            self._upload(rows or [])
        return self.tensor[:num_seqs] if rows is not None or self.for_graphs else None

    def _upload(self, rows: Sequence[Sequence[Span]]) -> None:
        # All rows are written, so that no range of an earlier, larger step is left.
        padded = torch.zeros(self.tensor.shape, dtype=torch.int32)
        fill_rows(padded, rows)
        self.staging.upload(padded, self.tensor)
        self.holds_ranges = bool(rows)

    def _check_capacity(self, rows: Sequence[Sequence[Span]], num_seqs: int) -> None:
        max_num_seqs, max_ranges, _ = self.tensor.shape
        if num_seqs < 0:
            raise ValueError(f"{num_seqs} sequences: there are at least 0")
        if num_seqs > max_num_seqs:
            raise ValueError(f"{num_seqs} sequences: this buffer holds {max_num_seqs}")
        for request, spans in enumerate(rows):
            if len(spans) > max_ranges:
                raise ValueError(
                    f"request {request} has {len(spans)} ranges: this buffer holds {max_ranges}"
                )


def range_tensors_by_micro_batch(
    ranges: PrefixRanges | None, batches: Sequence[Batch], upload: Upload
) -> list[torch.Tensor | None]:
    """Returns the range tensor of each micro-batch, in order: its rows of the one tensor that
    `upload` returns, [num_seqs, max_ranges, 2] int32. All are None if `upload` returns None.

    `ranges` is keyed by the request's index in the whole step. `batch.requests` are the requests of
    one micro-batch; its rows after them are padding, and zero. `upload(ranges, num_seqs)` is called
    once, and with None if no span holds a scheduled position.
    """
    rows: dict[int, Sequence[Span]] = {}
    first_row, matters = 0, False
    for batch in batches:
        spans = spans_of(ranges, batch.requests)
        rows.update(enumerate(spans, start=first_row))
        matters = matters or any(map(touches, spans, batch.scheduled))
        first_row += batch.num_seqs
    tensor = upload(rows if matters else None, first_row)
    if tensor is None:
        return [None] * len(batches)
    return list(tensor.split([batch.num_seqs for batch in batches]))
