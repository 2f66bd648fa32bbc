"""Metadata in new tensors for each step, and a block mask that is made when a layer first reads
it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import BlockMask

from ..mask import Mask, block_mask_over, paged_mask_mod
from ..steps.batch import CommonAttentionMetadata
from ..steps.limits import Limits
from .direct_build import is_page_of, physical_to_logical_mapping


@dataclass(frozen=True)
class FlexAttentionMetadata:
    """The data of one step that layers read, in tensors made for this step."""

    make_block_mask: Callable[[], BlockMask]
    num_tokens: int
    """Number of tokens of the step, those that pad it to a captured size included."""
    max_seq_len: int
    """Number of tokens of a request whose pages are listed; pages after these are not."""
    buffers: StepTables

    @cached_property
    def block_mask(self) -> BlockMask:
        """FlexAttention's argument for this step: made when the first layer reads it, in its
        forward, and then kept."""
        return self.make_block_mask()

    @property
    def doc_ids(self) -> torch.Tensor:
        """[num_tokens] int32: the index of each token's request."""
        return self.buffers.doc_ids


class ListedPages(NamedTuple):
    """Lists of the pages that each of a step's G groups of q_block tokens reads."""

    kv_num_blocks: torch.Tensor
    """[G] int32: how many pages each group of tokens reads."""
    kv_indices: torch.Tensor
    """[G, num_gpu_blocks + 1] int32: the pages that each group reads, ascending, then -1."""


class StepTables:
    """The tables that a mask reads in a step of R requests with T tokens: int32 on the device."""

    doc_ids: torch.Tensor
    """[T]: the index of each token's request; 0 for tokens that pad the batch to a captured
    size."""
    decode_offset: torch.Tensor
    """[R]: how many tokens of each request were computed before."""
    physical_to_logical: torch.Tensor
    """[R, num_gpu_blocks]: for each request, the index of each block of the cache among its pages;
    -1 for blocks that aren't its own."""

    def __init__(
        self,
        common: CommonAttentionMetadata,
        limits: Limits,
        query_lens: torch.Tensor,
        doc_ids: torch.Tensor,
    ) -> None:
        """Makes the tables of a step. `query_lens` [R] and `doc_ids` [tokens of all requests] are
        int32, without the tokens that pad the batch to a captured size."""
        self.common, self.limits = common, limits
        self.query_start_loc, self.seq_lens = common.query_start_loc, common.seq_lens
        padding = common.num_actual_tokens - len(doc_ids)
        self.doc_ids = F.pad(doc_ids, (0, padding)) if padding else doc_ids
        self.decode_offset = common.seq_lens - query_lens
        self.physical_to_logical = physical_to_logical_mapping(
            common.block_table, common.seq_lens, limits.block_size, limits.num_gpu_blocks
        )

    def block_mask(self, mask: Mask) -> BlockMask:
        """Returns FlexAttention's argument for this step. The host waits to learn how many pages
        are used."""
        mask_mod = paged_mask_mod(mask, self, self.limits)
        num_tokens = self.common.num_actual_tokens
        return block_mask_over(self._page_lists(), self.limits, mask_mod, num_tokens)

    def _page_lists(self) -> ListedPages:
        used = self._used_pages()
        group, page = used.nonzero(as_tuple=True)
        place = used.cumsum(1)[group, page] - 1
        num_groups, num_blocks = used.shape
        kv_indices = self.doc_ids.new_full((num_groups, num_blocks + 1), -1)
        kv_indices[group, place] = page.to(torch.int32)
        return ListedPages(used.sum(1, dtype=torch.int32), kv_indices)

    def _used_pages(self) -> torch.Tensor:
        """Returns [G, num_gpu_blocks] bool: True for a block that is a page of a request with a
        token in the group. Entries of a block table after the request's last page are garbage."""
        table, num_blocks = self.common.block_table, self.limits.num_gpu_blocks
        table = table[:, : self.limits.pages_of(self.common.max_seq_len)]
        is_page = is_page_of(table, self.seq_lens, self.limits.block_size, num_blocks)
        of_tokens = torch.where(is_page, table, 0)[self.doc_ids]
        filling = -self.common.num_actual_tokens % self.limits.q_block
        of_groups = F.pad(of_tokens, (0, 0, 0, filling)).view(
            -1, self.limits.q_block * len(table[0])
        )
        used = torch.zeros(len(of_groups), num_blocks, dtype=torch.bool, device=table.device)
        used.scatter_(1, of_groups.long(), True)
        used[:, 0] = False
        return used
