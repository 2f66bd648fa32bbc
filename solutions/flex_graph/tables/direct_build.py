"""The tables of a step by PyTorch's operators, none of which waits: vLLM #36298 builds them this
way, and the kernels of device_build write the same tables."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F

from ..buffers import copy_to_persistent
from ..mask import Mask
from ..steps.limits import Limits


def physical_to_logical_mapping(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_gpu_blocks: int
) -> torch.Tensor:
    """Returns [R, num_gpu_blocks] int32: the index of each block among the request's pages; -1 for
    blocks that are not the request's own, and always for block 0 (vLLM #36298).

    `block_table` [R, C] and `seq_lens` [R] are int32 on one device. Entries beyond the request's
    length are ignored, and so are entries that are no existing block. If several entries name one
    block, the last of them counts.
    """
    places = torch.arange(block_table.shape[1], dtype=torch.int32, device=block_table.device)
    is_page = is_page_of(block_table, seq_lens, block_size, num_gpu_blocks)
    mapping = block_table.new_full((len(block_table), num_gpu_blocks), -1)
    # Entries that are no page write -1 to block 0.
    blocks = torch.where(is_page, block_table, 0).long()
    return mapping.scatter_reduce_(1, blocks, torch.where(is_page, places, -1), "amax")


def is_page_of(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_gpu_blocks: int
) -> torch.Tensor:
    """Returns [R, C] bool: True for the entries of `block_table` that the request's length needs
    and that are an existing block."""
    columns = block_table.shape[1]
    first_tokens = torch.arange(0, columns * block_size, block_size, device=block_table.device)
    is_needed = first_tokens < seq_lens[:, None]
    return is_needed & (block_table > 0) & (block_table < num_gpu_blocks)


def kv_blocks(
    block_table: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    doc_ids: torch.Tensor,
    limits: Limits,
    mask: Mask,
    num_tokens: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns new tensors (kv_num_blocks [G'], kv_indices [G', q_block * C + 1]), int32, without a
    wait.

    For each of the G' groups of q_block tokens: how many pages it needs, and which, each once. They
    are the pages of its tokens' requests that a token may see by `mask`, its logical_mask_mod left
    aside. The pages are ascending, followed by -1. device_build lists the same pages in the order
    of requests and of the pages within them, and after the first -1 leaves what was there before.

    `block_table` [R, C], `query_start_loc` [R + 1], `seq_lens` [R] and `doc_ids`, at least
    `num_tokens` long, are int32 on the device. No table of groups by blocks, [G', num_gpu_blocks],
    is made, since with long requests it doesn't fit into memory.
    """
    token = torch.arange(num_tokens, dtype=torch.int32, device=doc_ids.device)
    request = doc_ids[:num_tokens]
    is_own = is_page_of(block_table, seq_lens, limits.block_size, limits.num_gpu_blocks)
    is_own = is_own & is_last_of_its_block(block_table, is_own)
    first, end = _reach(token, request, query_start_loc, seq_lens, limits.block_size, mask)
    place = torch.arange(block_table.shape[1], dtype=torch.int32, device=doc_ids.device)
    is_needed = is_own[request] & (place >= first[:, None]) & (place < end[:, None])
    needed = torch.where(is_needed, block_table[request], limits.num_gpu_blocks)
    filling = -num_tokens % limits.q_block
    of_tokens = F.pad(needed, (0, 0, 0, filling), value=limits.num_gpu_blocks)
    of_groups = of_tokens.view(limits.groups_of(num_tokens), -1)
    return _each_once(of_groups, limits.num_gpu_blocks)


def is_last_of_its_block(block_table: torch.Tensor, is_page: torch.Tensor) -> torch.Tensor:
    """Returns [R, C] bool: True for a page's entry unless a later page of the request is the same
    block, so True for the entry that physical_to_logical has. The value is arbitrary where
    `is_page` is False."""
    # Stable, so that entries of one block stay in their order, with the last one at the end.
    blocks, places = torch.where(is_page, block_table, -1).sort(dim=1, stable=True)
    is_last = F.pad(blocks[:, 1:] != blocks[:, :-1], (0, 1), value=True)
    return torch.empty_like(is_last).scatter_(1, places, is_last)


def _reach(
    token: torch.Tensor,
    request: torch.Tensor,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    page: int,
    mask: Mask,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (first page that each token may see, end of these pages), [num_tokens] each, counted
    in pages of the token's request. Tokens that pad the batch see none: their end is 0."""
    decode_offset = seq_lens - query_start_loc.diff()
    position = token - query_start_loc[request] + decode_offset[request]
    first, end = torch.zeros_like(position), seq_lens[request]
    if mask.causal:
        end = position + 1
    if mask.sliding_window is not None:
        first = (position - mask.sliding_window + 1).clamp(min=0)
    if mask.sliding_window is not None and not mask.causal:
        end = torch.minimum(end, position + mask.sliding_window)
    end = torch.where(token < query_start_loc[-1], end, 0)
    return first // page, (end + page - 1) // page


def _each_once(blocks: torch.Tensor, none: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns how many different blocks each row of `blocks` has, and which: ascending, then at
    least one -1. `none` is larger than any block and stands for no block."""
    num_groups, columns = blocks.shape
    ascending = blocks.sort(dim=1).values
    is_first = F.pad(ascending[:, 1:] != ascending[:, :-1], (1, 0), value=True)
    is_first = is_first & (ascending < none)
    # All other entries go to the last column, where no block can be: a row has at most `columns`
    # different blocks.
    place = torch.where(is_first, is_first.cumsum(1) - 1, columns)
    packed = blocks.new_full((num_groups, columns + 1), -1)
    packed.scatter_(1, place, torch.where(is_first, ascending, -1))
    return is_first.sum(1, dtype=torch.int32), packed


class MetadataTensors(NamedTuple):
    """The tensors of a step that attention reads, int32 on the device. Buffers have the sizes of
    the largest step: S requests, T tokens, and G groups of tokens with up to W pages each."""

    query_start_loc: torch.Tensor
    """[S + 1]: where each request's tokens start, then the end of the last one's."""
    seq_lens: torch.Tensor
    """[S]: tokens of each request, with those that were computed before."""
    decode_offset: torch.Tensor
    """[S]: how many tokens of each request were computed before."""
    doc_ids: torch.Tensor
    """[T]: the request of each token."""
    kv_num_blocks: torch.Tensor
    """[G]: how many pages each group of tokens needs."""
    kv_indices: torch.Tensor
    """[G, W + 1]: the pages that each group needs, then -1."""


def persistent_metadata(
    buffers: MetadataTensors,
    query_start_loc: torch.Tensor,
    seq_lens: torch.Tensor,
    pages: torch.Tensor,
) -> MetadataTensors:
    """Writes the metadata of a step to `buffers`, and returns them (vLLM #36298).

    `query_start_loc` [R + 1] and `seq_lens` [R] describe the step's R requests. `pages` has a row
    for each group of its tokens: the pages that the group needs, then -1. All three are int32 on
    the device, and none shares memory with the buffers.
    """
    last = query_start_loc[-1]
    _write(buffers.query_start_loc, query_start_loc, behind=last)
    _write(buffers.seq_lens, seq_lens, behind=0)
    _write(buffers.decode_offset, seq_lens - query_start_loc.diff(), behind=0)
    buffers.doc_ids.copy_(request_of_each(query_start_loc, len(buffers.doc_ids)))
    _write(buffers.kv_num_blocks, (pages >= 0).sum(1, dtype=torch.int32), behind=0)
    _write(buffers.kv_indices, pages, behind=-1)
    return buffers


def request_of_each(query_start_loc: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """Returns the index of the request of each token of a step, [num_tokens] int32; 0 for tokens
    after the last request's, which pad the batch."""
    token = torch.arange(num_tokens, dtype=torch.int32, device=query_start_loc.device)
    # The first request that ends after the token.
    request = torch.searchsorted(query_start_loc[1:], token, right=True, out_int32=True)
    return request.masked_fill_(token >= query_start_loc[-1], 0)


def _write(dst: torch.Tensor, src: torch.Tensor, behind: int | torch.Tensor) -> None:
    """Copies `src` to the start of `dst`, and fills the rest of `dst` with `behind`."""
    dst.fill_(behind)
    copy_to_persistent(dst, src)
