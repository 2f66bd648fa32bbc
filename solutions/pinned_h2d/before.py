"""The metadata as it was: a property, evaluated in the forward of every layer.

Each evaluation uploads one small tensor per request. Each of these uploads is pageable: the host
waits until the device has done all that was queued before it, then the device waits for the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from .model.batch import Batch
from .ranges import PrefixRanges, ranges_by_row


def compute_mm_prefix_range_tensor(
    ranges: PrefixRanges | None, num_seqs: int, device: torch.device
) -> torch.Tensor | None:
    """[num_seqs, max_ranges, 2] int32 on the device, zero padded, or None without any range."""
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    uploaded = [torch.tensor(spans, dtype=torch.int32, device=device) for spans in rows]
    return pad_sequence(uploaded, batch_first=True)


@dataclass
class TritonAttentionMetadata:
    """What the attention of one layer needs to know of a step."""

    batch: Batch
    mm_prefix_range: PrefixRanges | None = None

    @property
    def mm_prefix_range_tensor(self) -> torch.Tensor | None:
        return compute_mm_prefix_range_tensor(
            self.mm_prefix_range, self.batch.num_seqs, self.batch.seq_lens.device
        )


class ModelRunner:
    """Hands the ranges on as they are, and leaves the rest to the layers."""

    def _set_mm_prefix_range_for_metadata(
        self, attn_metadata: dict[str, TritonAttentionMetadata], ranges: PrefixRanges | None
    ) -> None:
        for metadata in attn_metadata.values():
            metadata.mm_prefix_range = ranges
