"""The version before the change: each layer makes the range tensor for itself, while it runs.

That makes layers × requests uploads in a step, each from pageable memory. At each the host waits
until the device has finished all queued work, and then the device is idle until the host goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from .model.batch import Batch
from .ranges import PrefixRanges, check_ranges, ranges_by_row, spans_of


def compute_mm_prefix_range_tensor(
    ranges: PrefixRanges | None, num_seqs: int, device: torch.device
) -> torch.Tensor | None:
    """Returns [num_seqs, max_ranges, 2] int32 on the device, zero padded; None without ranges."""
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    uploaded = [torch.tensor(spans, dtype=torch.int32, device=device) for spans in rows]
    return pad_sequence(uploaded, batch_first=True)


@dataclass
class TritonAttentionMetadata:
    """The data of one step that the attention of a layer reads."""

    batch: Batch
    mm_prefix_range: PrefixRanges | None = None

    @property
    def mm_prefix_range_tensor(self) -> torch.Tensor | None:
        device = self.batch.seq_lens.device
        return compute_mm_prefix_range_tensor(self.mm_prefix_range, self.batch.num_seqs, device)


class ModelRunner:
    """The part of a model runner that sets a step's prefix ranges in the metadata of all layers,
    before the first layer runs."""

    def _set_mm_prefix_range_for_metadata(
        self, attn_metadata: dict | list[dict], ranges: PrefixRanges | None
    ) -> None:
        """Sets a step's prefix ranges in the metadata of all layers. `ranges` is keyed by the
        request's index in the whole step. Raises the errors of check_ranges."""
        _set_mm_prefix_range_for_metadata(attn_metadata, ranges)


def _set_mm_prefix_range_for_metadata(
    attn_metadata: dict | list[dict], ranges: PrefixRanges | None
) -> None:
    """Sets `mm_prefix_range` in the metadata of each layer: the spans of the requests in its batch.

    `attn_metadata` is a dict by layer name, or a list of such dicts, one for each micro-batch.
    Nothing is uploaded here: each layer uploads whenever it reads its `mm_prefix_range_tensor`.
    """
    check_ranges(ranges)
    micro_batches = attn_metadata if isinstance(attn_metadata, list) else [attn_metadata]
    for layers in micro_batches:
        for metadata in layers.values():
            spans = spans_of(ranges, metadata.batch.requests)
            metadata.mm_prefix_range = dict(enumerate(spans))
