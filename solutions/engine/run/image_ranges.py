"""Uploads the ranges of a step's images: once for each layer, or once for all layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from solutions.pinned_h2d import Batch, ModelRunner, PrefixRanges, TritonAttentionMetadata, before
from solutions.pinned_h2d.model.model import PrefixMetadata

from ..model.config import EngineConfig


class RangesOfEachLayer:
    """The image ranges without pinned_h2d: every layer uploads them for itself, while it runs."""

    can_be_captured = False

    def __init__(self, config: EngineConfig, device: torch.device) -> None:
        self.runner = before.ModelRunner()

    def metadata_of(
        self, batch: Batch, layers: Sequence[str], images: PrefixRanges
    ) -> Mapping[str, PrefixMetadata]:
        metadata = {name: before.TritonAttentionMetadata(batch) for name in layers}
        self.runner._set_mm_prefix_range_for_metadata(metadata, images)
        return metadata

    def clear(self, num_rows: int) -> None:
        """Does nothing: no graph contains these layers."""

    def reset(self) -> None:
        """Does nothing: every step uploads its ranges."""


class RangesOfStep:
    """The image ranges with pinned_h2d: one upload a step, to an address that a graph may keep."""

    can_be_captured = True

    def __init__(self, config: EngineConfig, device: torch.device) -> None:
        self.runner = ModelRunner(
            config.limits.max_num_seqs, config.max_images, device, for_graphs=True
        )

    def metadata_of(
        self, batch: Batch, layers: Sequence[str], images: PrefixRanges
    ) -> Mapping[str, PrefixMetadata]:
        metadata = {name: TritonAttentionMetadata(batch) for name in layers}
        self.runner._set_mm_prefix_range_for_metadata(metadata, images)
        return metadata

    def clear(self, num_rows: int) -> None:
        if self.runner.prefix_ranges.holds_ranges:
            self.runner.prefix_ranges.update(None, num_rows)

    def reset(self) -> None:
        """Makes the next replayed step write its ranges, even if it has no images."""
        self.runner.prefix_ranges.holds_ranges = True
