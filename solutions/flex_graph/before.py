"""Builds each step's metadata in new tensors, which no graph can contain."""

from __future__ import annotations

import torch

from .mask import CAUSAL, Mask
from .steps.batch import CommonAttentionMetadata, check_batch
from .steps.limits import Limits
from .tables.mask_check import check_logical_mask_mod
from .tables.step_tables import FlexAttentionMetadata, StepTables


class FlexAttentionMetadataBuilder:
    """Builds a step's metadata, once for all layers that have the mask `mask`. These layers share
    it, and no layer may see less or more than the mask.

    Raises RuntimeError or ValueError for a logical_mask_mod that can't be part of a kernel.
    """

    def __init__(self, limits: Limits, device: torch.device, mask: Mask = CAUSAL) -> None:
        check_logical_mask_mod(mask, device)
        self.limits, self.device, self._mask = limits, device, mask

    @property
    def mask(self) -> Mask:
        """The mask that the layers share. It can't be changed: graphs were captured with it."""
        return self._mask

    def build(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """Returns a step's metadata, in new tensors. The host waits for the length of doc_ids.

        Raises ValueError, before anything is changed, for a batch beyond the limits.
        """
        num_tokens = common.num_actual_tokens
        check_batch(common, self.limits, self.device)
        query_lens = common.query_start_loc.diff()
        requests = torch.arange(len(query_lens), dtype=torch.int32, device=self.device)
        doc_ids = requests.repeat_interleave(query_lens)
        buffers = StepTables(common, self.limits, query_lens, doc_ids)
        return FlexAttentionMetadata(
            # The first layer calls this in its forward, and the host waits again.
            make_block_mask=lambda: buffers.block_mask(self.mask),
            num_tokens=num_tokens,
            max_seq_len=common.max_seq_len,
            buffers=buffers,
        )

    def build_for_cudagraph_capture(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """Returns the result of `build`, which raises in a capture: the host can't wait there."""
        return self.build(common)
