"""Builds each step's metadata in the same memory, so that one graph serves all steps."""

from __future__ import annotations

from dataclasses import replace

import torch

from .buffers import FlexAttentionMetadata, PersistentBuffers
from .mask import CAUSAL, Mask, block_mask_over, paged_mask_mod
from .steps.batch import CommonAttentionMetadata, check_batch
from .steps.limits import Limits
from .tables.device_build import build_on_device
from .tables.mask_check import check_logical_mask_mod


class FlexAttentionMetadataBuilder:
    """Builds a step's metadata, once for all layers that have the mask `mask`. These layers share
    it, and no layer may see less or more than the mask.

    Raises RuntimeError or ValueError for a logical_mask_mod that can't be part of a kernel.
    """

    def __init__(self, limits: Limits, device: torch.device, mask: Mask = CAUSAL) -> None:
        check_logical_mask_mod(mask, device)
        self.limits, self.device, self._mask = limits, device, mask
        # Graphs keep reading the buffers, so the builder has to live as long as its graphs.
        self.buffers = PersistentBuffers(limits, device)
        # One function for all steps: each new function would be compiled into a new kernel.
        self._mask_mod = paged_mask_mod(mask, self.buffers, limits)

    @property
    def mask(self) -> Mask:
        """The mask that the layers share. It can't be changed: graphs were captured with it."""
        return self._mask

    def build(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """Returns a step's metadata, valid until the next build, without an upload or a wait: by
        three copies, two fills if the batch has fewer than max_num_seqs rows, and three launches,
        or one if no layer reads the lists of pages.

        Raises ValueError, before anything is changed, for a batch beyond the limits.
        """
        buffers, num_tokens = self.buffers, common.num_actual_tokens
        check_batch(common, self.limits, buffers.seq_lens.device)
        buffers.copy_batch(common)
        build_on_device(buffers, self.limits, self.mask, num_tokens, common.max_seq_len)
        return FlexAttentionMetadata(
            block_mask=block_mask_over(buffers, self.limits, self._mask_mod, num_tokens),
            num_tokens=num_tokens,
            max_seq_len=common.max_seq_len,
            buffers=buffers,
            mask=self.mask,
        )

    def build_for_cudagraph_capture(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """Builds as if requests had max_model_len tokens: a graph captures the bound of its loops
        over pages. `common` needs all rows and columns of any replay: shapes are captured too."""
        longest = max(common.max_seq_len, self.limits.max_model_len)
        return self.build(replace(common, max_seq_len=longest))
