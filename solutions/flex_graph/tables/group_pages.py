"""The second and third launch of a build: find which pages each group of tokens needs, then list
them.

A program works for one request of a group: the first, the second, and so on. It handles the pages
of this request that its tokens in the group may see. A page counts for the first request that needs
it. Where a program's pages go in the list depends on how many pages the programs before it have,
and programs can't wait for one another. That is why there are two kernels.
"""

from __future__ import annotations

from collections.abc import Mapping

import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from ..buffers import PersistentBuffers
from ..mask import Mask
from ..steps.limits import Limits


def list_group_pages(
    buffers: PersistentBuffers,
    limits: Limits,
    mask: Mask,
    num_tokens: int,
    max_pages: int,
    tiling: Mapping[str, int],
) -> None:
    """Fills kv_num_blocks and kv_indices in `buffers` for the groups of `num_tokens` tokens, by two
    launches after `fill_request_tables`. Pages of a request from number `max_pages` on are not
    read."""
    tables = (
        buffers.query_start_loc,
        buffers.seq_lens,
        buffers.block_table,
        buffers.doc_ids,
        buffers.decode_offset,
    )
    sizes = (limits.max_num_seqs, num_tokens, limits.pages_per_seq, max_pages)
    grid = (limits.groups_of(num_tokens), min(limits.q_block, limits.max_num_seqs))
    constants = {
        "GROUP": limits.q_block,
        "PAGE": limits.block_size,
        "CAUSAL": mask.causal,
        "WINDOW": mask.sliding_window or 0,
        **tiling,
    }
    launch(
        needed_pages_kernel,
        grid,
        buffers.needs,
        buffers.num_needed,
        *tables,
        buffers.physical_to_logical,
        buffers.page_users,
        *sizes,
        limits.num_gpu_blocks,
        **constants,
        work=lambda: _work(limits, num_tokens, max_pages),
    )
    launch(
        packed_pages_kernel,
        grid,
        buffers.kv_num_blocks,
        buffers.kv_indices,
        buffers.needs,
        buffers.num_needed,
        *tables,
        *sizes,
        **constants,
        work=lambda: _work(limits, num_tokens, max_pages),
    )


def _work(limits: Limits, num_tokens: int, max_pages: int) -> Work:
    """Returns the bytes that one of the two launches moves, for sim's cost model: for each page of
    each request of a group its entry, and either how many tables it is in or its place in the list.
    Counts at least one request per group."""
    requests = max(min(limits.max_num_seqs, num_tokens), limits.groups_of(num_tokens))
    return Work(bytes=requests * max_pages * (4 + 4 + 1), tensor_cores=False)


@triton.jit
def first_token_of(nth, doc_ids, group_start, end_token, GROUP: tl.constexpr):
    """Returns the index of the first token of the group's nth request, counted from 0; -1 if the
    group has fewer requests."""
    token = group_start + tl.arange(0, GROUP)
    exists = token < end_token
    request = tl.load(doc_ids + token, mask=exists, other=-1)
    before = tl.load(doc_ids + token - 1, mask=exists & (token > group_start), other=-1)
    is_first = exists & (request != before)
    is_it = is_first & (tl.cumsum(is_first.to(tl.int32)) == nth + 1)
    return tl.max(tl.where(is_it, token, -1))


@triton.jit
def reach(
    request,
    first_token,
    end_token,
    query_start_loc,
    seq_lens,
    decode_offset,
    max_pages,
    PAGE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,
):
    """Returns (first page, end of the pages) of the request that its tokens from `first_token` to
    `end_token`, or to the request's last token, may see. There are no gaps, since the tokens are
    consecutive."""
    end_token = tl.minimum(end_token, tl.load(query_start_loc + request + 1))
    to_position = tl.load(decode_offset + request) - tl.load(query_start_loc + request)
    first_key = 0
    end_key = tl.load(seq_lens + request)
    if CAUSAL:
        end_key = tl.minimum(end_key, end_token + to_position)
    if WINDOW > 0:
        first_key = tl.maximum(first_token + to_position - (WINDOW - 1), 0)
        if not CAUSAL:
            end_key = tl.minimum(end_key, end_token + to_position + (WINDOW - 1))
    return first_key // PAGE, tl.minimum(tl.cdiv(end_key, PAGE), max_pages)


@triton.jit(
    # One compiled kernel serves all of these values, which differ from step to step.
    do_not_specialize=["num_tokens", "max_pages"],
)
def needed_pages_kernel(
    needs,  # [num_groups, GROUP, pages_per_seq] int8
    num_needed,  # [num_groups, GROUP] int32, as are all tensors below
    query_start_loc,  # [num_seqs + 1]
    seq_lens,  # [num_seqs]
    block_table,  # [num_seqs, pages_per_seq]
    doc_ids,  # [num_tokens] or more
    decode_offset,  # [num_seqs]
    physical_to_logical,  # [num_seqs, num_blocks]
    page_users,  # [num_blocks]
    num_seqs,
    num_tokens,
    pages_per_seq,
    max_pages,  # of a request in this step
    num_blocks,
    GROUP: tl.constexpr,
    PAGE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,  # 0: none
    TILE: tl.constexpr,
):
    """Finds which pages of one of its requests one group of tokens has to read, and counts them."""
    group_start = tl.program_id(0) * GROUP
    row = group_start + tl.program_id(1)
    end_of_batch = tl.minimum(tl.load(query_start_loc + num_seqs), num_tokens)
    end_token = tl.minimum(group_start + GROUP, end_of_batch)
    token = first_token_of(tl.program_id(1), doc_ids, group_start, end_token, GROUP)
    if token < 0:
        tl.store(num_needed + row, 0)
        return

    request = tl.load(doc_ids + token)
    needs += row.to(tl.int64) * pages_per_seq
    block_table += request.to(tl.int64) * pages_per_seq
    first, end = reach(
        request,
        token,
        end_token,
        query_start_loc,
        seq_lens,
        decode_offset,
        max_pages,
        PAGE,
        CAUSAL,
        WINDOW,
    )
    count = tl.full([TILE], 0, tl.int32)
    for tile_start in range(first, end, TILE):
        place = tile_start + tl.arange(0, TILE)
        block = tl.load(block_table + place, mask=place < end, other=0)
        is_needed = (block > 0) & (block < num_blocks)
        # Nearly every page is in one table, once. Such a page needs no lookup in
        # physical_to_logical, whose rows are as long as the KV cache, so that each lookup would
        # read the device's memory.
        users = tl.load(page_users + block, mask=is_needed, other=0)
        is_shared = users > 1
        if tl.max(users) > 1:
            own_row = physical_to_logical + request.to(tl.int64) * num_blocks
            own_place = tl.load(own_row + block, mask=is_shared, other=-1)
            is_needed &= (own_place == place) | (users == 1)
            for earlier in range(group_start, token):
                other = tl.load(doc_ids + earlier)
                before = tl.load(doc_ids + earlier - 1, mask=earlier > group_start, other=-1)
                if other != before:
                    other_first, other_end = reach(
                        other,
                        earlier,
                        end_token,
                        query_start_loc,
                        seq_lens,
                        decode_offset,
                        max_pages,
                        PAGE,
                        CAUSAL,
                        WINDOW,
                    )
                    other_row = physical_to_logical + other.to(tl.int64) * num_blocks
                    theirs = tl.load(other_row + block, mask=is_needed & is_shared, other=-1)
                    is_needed &= (theirs < other_first) | (theirs >= other_end)
        tl.store(needs + place, is_needed.to(tl.int8), mask=place < end)
        count += is_needed.to(tl.int32)
    tl.store(num_needed + row, tl.sum(count))


@triton.jit(do_not_specialize=["num_tokens", "max_pages"])
def packed_pages_kernel(
    kv_num_blocks,  # [num_groups] int32, as are all tensors below but needs
    kv_indices,  # [num_groups, GROUP * pages_per_seq + 1]
    needs,  # [num_groups, GROUP, pages_per_seq] int8
    num_needed,  # [num_groups, GROUP]
    query_start_loc,  # [num_seqs + 1]
    seq_lens,  # [num_seqs]
    block_table,  # [num_seqs, pages_per_seq]
    doc_ids,  # [num_tokens] or more
    decode_offset,  # [num_seqs]
    num_seqs,
    num_tokens,
    pages_per_seq,
    max_pages,  # of a request in this step
    GROUP: tl.constexpr,
    PAGE: tl.constexpr,
    CAUSAL: tl.constexpr,
    WINDOW: tl.constexpr,  # 0: none
    TILE: tl.constexpr,
):
    """Writes the pages that one group of tokens has to read of one of its requests to the group's
    list."""
    group = tl.program_id(0)
    nth = tl.program_id(1)
    group_start = group * GROUP
    nths = tl.arange(0, GROUP)
    counts = tl.load(num_needed + group_start + nths)
    kv_indices += group.to(tl.int64) * (GROUP * pages_per_seq + 1)
    if nth == 0:
        total = tl.sum(counts)
        tl.store(kv_num_blocks + group, total)
        tl.store(kv_indices + total, -1)
    if tl.sum(tl.where(nths == nth, counts, 0)) == 0:
        return

    end_of_batch = tl.minimum(tl.load(query_start_loc + num_seqs), num_tokens)
    end_token = tl.minimum(group_start + GROUP, end_of_batch)
    token = first_token_of(nth, doc_ids, group_start, end_token, GROUP)
    request = tl.load(doc_ids + token)
    needs += (group_start + nth).to(tl.int64) * pages_per_seq
    block_table += request.to(tl.int64) * pages_per_seq
    first, end = reach(
        request,
        token,
        end_token,
        query_start_loc,
        seq_lens,
        decode_offset,
        max_pages,
        PAGE,
        CAUSAL,
        WINDOW,
    )
    num_packed = tl.sum(tl.where(nths < nth, counts, 0))
    for tile_start in range(first, end, TILE):
        place = tile_start + tl.arange(0, TILE)
        need = tl.load(needs + place, mask=place < end, other=0).to(tl.int32)
        block = tl.load(block_table + place, mask=need > 0, other=0)
        tl.store(kv_indices + num_packed + tl.cumsum(need) - need, block, mask=need > 0)
        num_packed += tl.sum(need)
