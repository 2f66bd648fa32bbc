"""Attention of many tokens, such as those of prompts, over the pages of their requests."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .attend import LOG2_E, MOST_HEADS, Pages
from .kv_cache import KVCache


class QueryTile(NamedTuple):
    """A program's share of a step's queries, and how it reads the keys."""

    rows: int
    """Queries of the program: a few tokens, times the query heads that share a KV head."""
    keys: int
    """Keys that the program reads at once."""
    warps: int
    stages: int
    """Reads in flight."""


HALVES, SHORT = QueryTile(64, 64, 4, 2), QueryTile(16, 64, 2, 3)
"""The tile of most steps, and that of steps of at most FEW tokens: more programs share these. On an
H200, 8 prompts of 512 tokens with 16 heads take 47 µs with tiles of 64 rows, 55 with those of
128."""
WIDE = QueryTile(64, 32, 4, 2)
"""The tile for heads of 256 numbers, and for numbers of 32 bits."""
FEW = 256


def attends_many(num_heads: int, cache: KVCache) -> bool:
    """Returns True if `attend_many` takes queries of `num_heads` heads with this cache: the heads
    have a power of two as their size."""
    num_kv_heads, size = cache.key.shape[2:]
    sizes = 16 <= size <= 256 and size == triton.next_power_of_2(size)
    return sizes and num_heads // num_kv_heads <= MOST_HEADS


def tile_for(queries: torch.Tensor) -> QueryTile:
    """Returns the tile in which `attend_many` computes `queries` [T, num_heads, head_size]."""
    if queries.dtype == torch.float32 or queries.shape[2] > 128:
        return WIDE
    return SHORT if len(queries) <= FEW else HALVES


def attend_many(
    queries: torch.Tensor,
    pages: Pages,
    cache: KVCache,
    *,
    window: int | None = None,
    tile: QueryTile | None = None,
) -> torch.Tensor:
    """Returns causal attention of T tokens over their requests' keys, [T, num_heads * head_size],
    in one launch. Tokens that pad the step get zeros.

    queries  [T, num_heads, head_size], rotated; the heads of a token contiguous
    cache    has the keys and values of the step's tokens already
    window   how many keys a token sees, its own included; None is all
    tile     by default that of `tile_for`
    """
    (_, page, num_kv_heads, size), (num_tokens, num_heads, _) = cache.key.shape, queries.shape
    group, num_requests = num_heads // num_kv_heads, len(pages.seq_lens)
    tile = tile or tile_for(queries)
    output = queries.new_empty(num_tokens, num_heads * size)
    # Each request, and the padding after the last one, may begin a tile of its own.
    tiles = num_tokens // (tile.rows // group) + num_requests + 1
    launch(
        attend_many_kernel,
        (num_kv_heads, tiles),
        output,
        queries,
        cache.key,
        cache.value,
        pages.query_start_loc,
        pages.seq_lens,
        pages.block_table,
        num_tokens,
        num_requests,
        LOG2_E / size**0.5,
        queries.stride(0),
        pages.block_table.stride(0),
        KV_HEADS=num_kv_heads,
        GROUP=group,
        SIZE=size,
        PAGE=page,
        WINDOW=window or 0,
        REQUESTS=triton.next_power_of_2(num_requests + 1),
        ROWS=tile.rows,
        KEYS=tile.keys,
        UPCAST=triton.knobs.runtime.interpret,
        num_warps=tile.warps,
        num_stages=tile.stages,
        work=lambda: _work(queries, pages, cache),
    )
    return output


def _work(queries: torch.Tensor, pages: Pages, cache: KVCache) -> Work:
    """Returns the work for a step whose tokens are prompts of equal length: the host doesn't know
    how long the requests are."""
    num_tokens, num_heads, size = queries.shape
    longest = pages.block_table.shape[1] * cache.key.shape[1]
    keys = min(-(-num_tokens // len(pages.seq_lens)), longest) / 2
    of_cache = 2 * num_tokens * cache.key.shape[2] * size * queries.element_size()
    return Work(4.0 * num_tokens * keys * num_heads * size, 2 * queries.nbytes + of_cache)


@triton.jit
def _added_keys(
    query,
    key_cache,
    value_cache,
    table,
    kv_head,
    start,
    end,
    position,
    best,
    weights,
    total,
    scale,
    KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    WINDOW: tl.constexpr,
    KEYS: tl.constexpr,
    MASKED: tl.constexpr,
    UPCAST: tl.constexpr,
):
    """Adds the KEYS keys from `start` on to a softmax over all keys so far, of queries [ROWS, SIZE]
    at `position` [ROWS]. Without MASKED, every query sees every one of these keys."""
    column = tl.arange(0, SIZE)
    place = start + tl.arange(0, KEYS)
    if MASKED:
        page = tl.load(table + place // PAGE, mask=place < end, other=0)
    else:
        page = tl.load(table + place // PAGE)
    row = ((page.to(tl.int64) * PAGE + place % PAGE) * KV_HEADS + kv_head) * SIZE
    keys = tl.load(key_cache + row[:, None] + column[None, :])
    values = tl.load(value_cache + row[:, None] + column[None, :])
    if UPCAST:
        query, keys = query.to(tl.float32), keys.to(tl.float32)
    scores = tl.dot(query, tl.trans(keys), input_precision="ieee")
    if MASKED:
        seen = place[None, :] <= position[:, None]
        if WINDOW > 0:
            seen = seen & (position[:, None] - place[None, :] < WINDOW)
        scores = tl.where(seen, scores, -float("inf"))
    top = tl.maximum(best, tl.max(scores, 1) * scale)
    shrink = tl.exp2(best - top)
    chances = tl.exp2(scores * scale - top[:, None])
    weights = weights * shrink + tl.sum(chances, 1)
    chances = chances.to(values.dtype)
    if UPCAST:
        chances, values = chances.to(tl.float32), values.to(tl.float32)
    total = tl.dot(chances, values, total * shrink[:, None], input_precision="ieee")
    return top, weights, total


@triton.jit(
    # One compiled kernel serves any number of tokens.
    do_not_specialize=["num_tokens"],
)
def attend_many_kernel(
    output,  # [num_tokens, KV_HEADS * GROUP, SIZE], contiguous
    queries,  # likewise, but for the stride of a token
    key_cache,  # [num_slots, KV_HEADS, SIZE], contiguous
    value_cache,  # likewise
    query_start_loc,  # the tables of Pages
    seq_lens,
    block_table,
    num_tokens,
    num_requests,
    scale,
    query_stride,
    num_pages,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    WINDOW: tl.constexpr,  # 0 for none
    REQUESTS: tl.constexpr,  # a power of two, more than num_requests
    ROWS: tl.constexpr,
    KEYS: tl.constexpr,
    UPCAST: tl.constexpr,  # the interpreter's tl.dot mistakes bfloat16 for integers
):
    """Attends from a tile of one request's tokens, by the query heads of one KV head, to the
    request's keys."""
    TOKENS: tl.constexpr = ROWS // GROUP
    kv_head = tl.program_id(0)
    # The last tiles of a request have the most keys: begin with them.
    number = tl.num_programs(1) - 1 - tl.program_id(1)
    # The number of the first tile of each request, which leaves room for all tiles of the requests
    # before it. The last "request" is the padding.
    any_request = tl.arange(0, REQUESTS)
    starts = tl.load(query_start_loc + any_request, mask=any_request <= num_requests, other=0)
    first_tile = starts // TOKENS + any_request
    has_begun = (any_request <= num_requests) & (first_tile <= number)
    request = tl.sum(has_begun.to(tl.int32)) - 1
    is_real = request < num_requests
    began = tl.load(query_start_loc + request)
    ended = tl.load(query_start_loc + request + 1, mask=is_real, other=num_tokens)
    length = tl.load(seq_lens + request, mask=is_real, other=0)
    first = began + (number - began // TOKENS - request) * TOKENS
    if first < ended:
        row = tl.arange(0, ROWS)
        column = tl.arange(0, SIZE)
        token = first + row // GROUP
        exists = (row // GROUP < TOKENS) & (token < ended)
        head = kv_head * GROUP + row % GROUP
        place = (token.to(tl.int64) * query_stride + head * SIZE)[:, None] + column[None, :]
        query = tl.load(queries + place, mask=exists[:, None], other=0.0)
        to_position = length - ended
        position = token + to_position
        table = block_table + request.to(tl.int64) * num_pages
        end = tl.minimum(first + TOKENS + to_position, length)
        # Every query of the tile sees the keys before `masked`.
        start = 0
        masked = tl.maximum(first + to_position + 1, 0) // KEYS * KEYS
        if WINDOW > 0:
            start = tl.maximum(first + to_position - WINDOW + 1, 0) // KEYS * KEYS
            masked = start
        # A finite number, since the first keys may all be beyond a query's window.
        best = tl.full((ROWS,), -1e30, tl.float32)
        weights = tl.zeros((ROWS,), tl.float32)
        total = tl.zeros((ROWS, SIZE), tl.float32)
        for is_masked in tl.static_range(2):
            for at in range(masked if is_masked else start, end if is_masked else masked, KEYS):
                best, weights, total = _added_keys(
                    query,
                    key_cache,
                    value_cache,
                    table,
                    kv_head,
                    at,
                    end,
                    position,
                    best,
                    weights,
                    total,
                    scale,
                    KV_HEADS,
                    SIZE,
                    PAGE,
                    WINDOW,
                    KEYS,
                    is_masked,
                    UPCAST,
                )
        # Padding sees no key.
        mixed = total / tl.where(weights > 0, weights, 1.0)[:, None]
        place = (token.to(tl.int64) * (KV_HEADS * GROUP) + head)[:, None] * SIZE + column[None, :]
        tl.store(output + place, mixed.to(output.dtype.element_ty), mask=exists[:, None])
