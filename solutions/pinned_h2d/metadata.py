"""The metadata: holds the step's range tensor, and computes nothing when a layer reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import torch

from debubble.accelerator import current

from .model.batch import Batch
from .ranges import PrefixRanges, Span, check_ranges, ranges_by_row


class RangeState(Enum):
    """Not the same as None, which says: computed, and no range matters in this step."""

    NOT_COMPUTED = "not computed yet"


NOT_COMPUTED = RangeState.NOT_COMPUTED
Upload = Callable[[PrefixRanges | None, int], torch.Tensor | None]
"""Of ranges and num_seqs: [num_seqs, max_ranges, 2] int32 on the device, or None."""


def compute_mm_prefix_range_tensor(
    ranges: PrefixRanges | None, num_seqs: int, device: torch.device
) -> torch.Tensor | None:
    """[num_seqs, max_ranges, 2] int32 on the device, zero padded, or None without any range."""
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


def fill_rows(padded: torch.Tensor, rows: list[list[Span]]) -> None:
    """Writes the rows' spans into `padded`, [num_seqs, max_ranges, 2] int32 zeros on the host."""
    for row, spans in zip(padded.numpy(), rows, strict=False):
        row[: len(spans)] = spans


@dataclass
class TritonAttentionMetadata:
    """What the attention of one layer needs to know of a step."""

    batch: Batch
    mm_prefix_range_tensor: torch.Tensor | RangeState | None = NOT_COMPUTED

    compute_mm_prefix_range_tensor = staticmethod(compute_mm_prefix_range_tensor)
