"""Builds a step's metadata where the last step's was, so that one graph serves all steps."""

from __future__ import annotations

from dataclasses import replace

import torch

from .buffers import FlexAttentionMetadata, PersistentBuffers, copy_to_persistent
from .mask import CAUSAL, Mask, block_mask_over, paged_mask_mod
from .steps.batch import CommonAttentionMetadata, check_batch
from .steps.limits import Limits
from .tables.device_build import build_on_device
from .tables.mask_check import check_logical_mask_mod


class FlexAttentionMetadataBuilder:
    """Builds what the layers that see by one mask read of each step. They share it, and see by its
    mask and by nothing of their own.

    RuntimeError or ValueError for a logical_mask_mod that can't be part of a kernel.
    """

    def __init__(self, limits: Limits, device: torch.device, mask: Mask = CAUSAL) -> None:
        check_logical_mask_mod(mask, device)
        self.limits, self.device, self._mask = limits, device, mask
        # Graphs go on reading them: the builder has to live as long as its graphs do.
        self.buffers = PersistentBuffers(limits, device)
        # One function for all steps: each new one would be compiled into a kernel of its own.
        self._mask_mod = paged_mask_mod(mask, self.buffers, limits)

    @property
    def mask(self) -> Mask:
        """What the layers see. It can't be changed: graphs were captured with it."""
        return self._mask

    def build(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """The metadata of a step, until the next one is built. Nothing is uploaded or waited for,
        and a graph can hold it: three copies on the device, two fills where the batch has fewer
        than max_num_seqs rows, and three launches.

        ValueError, before anything is touched, for a batch beyond the limits.
        """
        buffers, num_tokens = self.buffers, common.num_actual_tokens
        check_batch(common, self.limits, buffers.seq_lens.device)
        self._copy(common)
        build_on_device(buffers, self.limits, self.mask, num_tokens, common.max_seq_len)
        return FlexAttentionMetadata(
            block_mask=block_mask_over(buffers, self.limits, self._mask_mod, num_tokens),
            num_tokens=num_tokens,
            max_seq_len=common.max_seq_len,
            buffers=buffers,
        )

    def build_for_cudagraph_capture(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """The same for requests as long as any that a replay may have: what bounds the loops over
        their pages is captured. So is the shape of what is copied, and the block table must have
        all columns; and a row for each request of a replay."""
        longest = max(common.max_seq_len, self.limits.max_model_len)
        return self.build(replace(common, max_seq_len=longest))

    def _copy(self, common: CommonAttentionMetadata) -> None:
        """Writes a batch to where graphs read it, with requests without tokens behind its own."""
        copy_to_persistent(self.buffers.query_start_loc, common.query_start_loc)
        copy_to_persistent(self.buffers.seq_lens, common.seq_lens)
        copy_to_persistent(self.buffers.block_table, common.block_table)
        self.buffers.empty_behind(len(common.seq_lens))
