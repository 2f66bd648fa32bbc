"""The runner's part: the ranges of a step are computed once, before its first layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .metadata import Upload
from .model.batch import Batch
from .range_buffer import PrefixRangeBuffer
from .ranges import PrefixRanges, Span, check_ranges, touches


class ModelRunner:
    """Owns what outlives a step: the range tensor and its staging memory."""

    def __init__(
        self,
        max_num_seqs: int,
        max_ranges: int,
        device: torch.device,
        *,
        steps_in_flight: int = 2,
        for_graphs: bool = False,
    ) -> None:
        self.prefix_ranges = PrefixRangeBuffer(
            max_num_seqs,
            max_ranges,
            device,
            steps_in_flight=steps_in_flight,
            for_graphs=for_graphs,
        )

    def _set_mm_prefix_range_for_metadata(
        self, attn_metadata: dict | list[dict], ranges: PrefixRanges | None
    ) -> None:
        _set_mm_prefix_range_for_metadata(attn_metadata, ranges, self.prefix_ranges.update)


def _set_mm_prefix_range_for_metadata(
    attn_metadata: dict | list[dict], ranges: PrefixRanges | None, upload: Upload
) -> None:
    """Sets `mm_prefix_range_tensor` of all metadata: by layer, or a list of such dicts, one for
    each micro-batch. `upload(ranges, num_seqs)` is called once a step, however many there are.
    """
    check_ranges(ranges)
    micro_batches = attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]
    batches = [next(iter(layers.values())).batch for layers in micro_batches]
    tensors = range_tensors_by_micro_batch(ranges, batches, upload)
    for layers, tensor in zip(micro_batches, tensors, strict=True):
        for metadata in layers.values():
            metadata.mm_prefix_range_tensor = tensor


def range_tensors_by_micro_batch(
    ranges: PrefixRanges | None, batches: Sequence[Batch], upload: Upload
) -> list[torch.Tensor | None]:
    """For each micro-batch, in order, the rows of its own sequences; zero rows may be None.

    `ranges` is keyed by the request's index in the whole step, and `batch.requests` are those of
    one micro-batch; its rows beyond them are padding, and zero. `upload(ranges, num_seqs)` is
    called once, and with None if no span holds a scheduled position.
    """
    rows: dict[int, Sequence[Span]] = {}
    first_row, matters = 0, False
    for batch in batches:
        spans_of = [(ranges or {}).get(request, ()) for request in batch.requests]
        rows.update(enumerate(spans_of, start=first_row))
        matters = matters or any(map(touches, spans_of, batch.scheduled))
        first_row += batch.num_seqs
    tensor = upload(rows if matters else None, first_row)
    if tensor is None:
        return [None] * len(batches)
    return list(tensor.split([batch.num_seqs for batch in batches]))
