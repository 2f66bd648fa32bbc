"""The version after the change: the runner makes one range tensor a step for all layers.

A step has one upload, from pinned memory and without a wait. It has none if no image contains one
of the step's tokens, as in decode steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .model.batch import Batch
from .range_buffer import (
    PrefixRangeBuffer,
    Upload,
    compute_mm_prefix_range_tensor,
    range_tensors_by_micro_batch,
)
from .ranges import NOT_COMPUTED, CheckedRanges, PrefixRanges, RangeState, check_ranges


@dataclass
class TritonAttentionMetadata:
    """The data of one step that the attention of a layer reads."""

    batch: Batch
    mm_prefix_range_tensor: torch.Tensor | RangeState | None = NOT_COMPUTED

    compute_mm_prefix_range_tensor = staticmethod(compute_mm_prefix_range_tensor)


class ModelRunner:
    """The part of a model runner that sets a step's prefix ranges in the metadata of all layers,
    before the first layer runs."""

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
            max_num_seqs, max_ranges, device, steps_in_flight=steps_in_flight, for_graphs=for_graphs
        )

    def _set_mm_prefix_range_for_metadata(
        self, attn_metadata: dict | list[dict], ranges: PrefixRanges | None
    ) -> None:
        """Sets a step's prefix ranges in the metadata of all layers. `ranges` is keyed by the
        request's index in the whole step. Raises the errors of check_ranges."""
        _set_mm_prefix_range_for_metadata(attn_metadata, ranges, self._upload)

    def _upload(self, ranges: PrefixRanges | None, num_seqs: int) -> torch.Tensor | None:
        checked = None if ranges is None else CheckedRanges(ranges)
        return self.prefix_ranges.update(checked, num_seqs)


def _set_mm_prefix_range_for_metadata(
    attn_metadata: dict | list[dict], ranges: PrefixRanges | None, upload: Upload
) -> None:
    """Sets `mm_prefix_range_tensor` of all metadata. `attn_metadata` is a dict by layer, or a list
    of such dicts, one for each micro-batch. All layers of a dict share the result of one call of
    `upload(ranges, num_seqs)`."""
    check_ranges(ranges)
    micro_batches = attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]
    micro_batches = [layers for layers in micro_batches if layers]
    batches = [next(iter(layers.values())).batch for layers in micro_batches]
    tensors = range_tensors_by_micro_batch(ranges, batches, upload)
    for layers, tensor in zip(micro_batches, tensors, strict=True):
        for metadata in layers.values():
            metadata.mm_prefix_range_tensor = tensor
