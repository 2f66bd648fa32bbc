"""The metadata as it was: new tensors in every step, and a mask that the first layer makes.

A graph can hold neither: it would go on reading the tensors of its capture, and the host waits
twice, to know how many tokens there are and how many pages they read.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import BlockMask

from .build.physical_to_logical import is_page_of, physical_to_logical_mapping
from .mask import CAUSAL, Mask, paged_mask_mod
from .metadata import block_mask_over
from .steps.batch import CommonAttentionMetadata
from .steps.limits import Limits


class PageLists(NamedTuple):
    """Of the pages that each of a step's G groups of q_block tokens may read."""

    kv_num_blocks: torch.Tensor
    """[G] int32: how many."""
    kv_indices: torch.Tensor
    """[G, num_gpu_blocks + 1] int32: which, ascending, then -1."""


@dataclass(frozen=True)
class FlexAttentionMetadata:
    """All tensors are new, on the device, and of this step's sizes: R requests, T tokens."""

    common: CommonAttentionMetadata
    limits: Limits
    mask: Mask
    doc_ids: torch.Tensor
    """[T] int32: the request of each token."""
    decode_offset: torch.Tensor
    """[R] int32: tokens computed before."""
    physical_to_logical: torch.Tensor
    """[R, num_gpu_blocks] int32: where in a request a block is, -1 for the blocks of others."""

    @property
    def num_tokens(self) -> int:
        return self.common.num_actual_tokens

    @property
    def query_start_loc(self) -> torch.Tensor:
        return self.common.query_start_loc

    @property
    def seq_lens(self) -> torch.Tensor:
        return self.common.seq_lens

    @cached_property
    def block_mask(self) -> BlockMask:
        """Made when a layer asks for the first time, in its forward; the host waits for it."""
        mask_mod = paged_mask_mod(self.mask, self, self.limits)
        return block_mask_over(self._page_lists(), self.limits, mask_mod, self.num_tokens)

    def _page_lists(self) -> PageLists:
        used = self._used_pages()
        group, page = used.nonzero(as_tuple=True)
        place = used.cumsum(1)[group, page] - 1
        num_groups, num_blocks = used.shape
        kv_indices = self.doc_ids.new_full((num_groups, num_blocks + 1), -1)
        kv_indices[group, place] = page.to(torch.int32)
        return PageLists(used.sum(1, dtype=torch.int32), kv_indices)

    def _used_pages(self) -> torch.Tensor:
        """[G', num_gpu_blocks] bool: whether a token of the group belongs to a request that has
        this page. What stands in a block table behind the request's last page is garbage."""
        table, num_blocks = self.common.block_table, self.limits.num_gpu_blocks
        table = table[:, : self.limits.pages_of(self.common.max_seq_len)]
        is_page = is_page_of(table, self.seq_lens, self.limits.block_size, num_blocks)
        of_tokens = torch.where(is_page, table, 0)[self.doc_ids]
        filling = -self.num_tokens % self.limits.q_block
        of_groups = F.pad(of_tokens, (0, 0, 0, filling)).view(
            -1, self.limits.q_block * len(table[0])
        )
        used = torch.zeros(len(of_groups), num_blocks, dtype=torch.bool, device=table.device)
        used.scatter_(1, of_groups.long(), True)
        used[:, 0] = False
        return used


class FlexAttentionMetadataBuilder:
    """Keeps nothing from step to step."""

    def __init__(self, limits: Limits, device: torch.device, mask: Mask = CAUSAL) -> None:
        self.limits, self.device, self.mask = limits, device, mask

    def build(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """The host waits once, to know how long doc_ids is."""
        query_lens = common.query_start_loc.diff()
        requests = torch.arange(len(query_lens), dtype=torch.int32, device=self.device)
        doc_ids = requests.repeat_interleave(query_lens)
        padding = common.num_actual_tokens - len(doc_ids)
        return FlexAttentionMetadata(
            common=common,
            limits=self.limits,
            mask=self.mask,
            doc_ids=F.pad(doc_ids, (0, padding)) if padding else doc_ids,
            decode_offset=common.seq_lens - query_lens,
            physical_to_logical=physical_to_logical_mapping(
                common.block_table,
                common.seq_lens,
                self.limits.block_size,
                self.limits.num_gpu_blocks,
            ),
        )

    def build_for_cudagraph_capture(self, common: CommonAttentionMetadata) -> FlexAttentionMetadata:
        """Nothing else than `build`: there was no support for a full graph."""
        return self.build(common)
