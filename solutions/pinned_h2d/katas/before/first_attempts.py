"""Parts of the step as one would write them first: right, and slower than need be.

Each has the name and the signature of the part that it became. They aren't in before.py, since no
step ever ran them: the step before the change had no runner that uploads, no staging, no buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import current

from ...model.batch import Batch
from ...range_buffer import Upload
from ...ranges import PrefixRanges, ranges_by_row, spans_of, touches


def _set_mm_prefix_range_for_metadata(
    attn_metadata: dict | list[dict], ranges: PrefixRanges | None, upload: Upload
) -> None:
    """Sets each layer's range tensor. Uploads once for each layer of each micro-batch, even if
    their ranges are equal."""
    micro_batches = attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]
    for layers in micro_batches:
        for metadata in layers.values():
            batch = metadata.batch
            own = spans_of(ranges, batch.requests)
            tensor = upload(dict(enumerate(own)), batch.num_seqs)
            metadata.mm_prefix_range_tensor = tensor


def range_tensors_by_micro_batch(
    ranges: PrefixRanges | None, batches: Sequence[Batch], upload: Upload
) -> list[torch.Tensor | None]:
    """Returns the range tensor of each micro-batch. Calls `upload` once for each, with ranges if
    one of its scheduled tokens is in an image."""
    tensors = []
    for batch in batches:
        own = spans_of(ranges, batch.requests)
        matters = any(map(touches, own, batch.scheduled))
        tensors.append(upload(dict(enumerate(own)) if matters else None, batch.num_seqs))
    return tensors


class StagingRing:
    """A ring without pinned memory: each upload is pageable, and the host waits until it is
    done."""

    def __init__(self, shape: tuple[int, ...], dtype: torch.dtype, depth: int) -> None:
        self.shape, self.dtype, self.depth = shape, dtype, depth

    def upload(self, values: torch.Tensor, destination: torch.Tensor) -> None:
        destination.copy_(values)


class PrefixRangeBuffer:
    """A stand-in for the buffer: `update` makes a new tensor in each step, at an address that no
    captured graph reads."""

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
        rows = ranges_by_row(ranges, num_seqs)
        if rows is None and not self.for_graphs:
            return None
        shape = (num_seqs, self.max_ranges, 2)
        padded = torch.zeros(shape, dtype=torch.int32, pin_memory=current().pin_memory)
        for row, spans in enumerate(rows or []):
            padded[row, : len(spans)] = torch.tensor(spans)
        return padded.to(self.device, non_blocking=True)
