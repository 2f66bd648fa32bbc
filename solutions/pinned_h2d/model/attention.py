"""Attention over a paged KV cache: causal, with a sliding window and prefix ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.decoder.shape import FLOATS
from solutions.common.one_device import check_one_device
from solutions.common.shared_memory import INTERPRETED, shared_memory_of

from ..ranges import RangeState
from .batch import Batch

LOG2_E = math.log2(math.e)


def prefix_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    batch: Batch,
    *,
    ranges: torch.Tensor | RangeState | None,
    scale: float | None = None,
    window: int | None = None,
    clamp_to_window: bool = False,
    output: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the attention's output for each query, [num_tokens, num_heads, head_size] as `query`
    is.

    query        contiguous heads
    caches       [num_blocks, block_size, num_kv_heads, head_size], contiguous
    ranges       [num_seqs, max_ranges, 2] int32, contiguous, or None without any range
    output       contiguous, returned if given; rows without a token of the batch stay as they are

    `clamp_to_window` keeps ranges inside the window. Raises TypeError for NOT_COMPUTED, and
    ValueError for ranges or an output of other shapes, dtypes or strides.
    """
    check_shapes(query, key_cache, value_cache, window, clamp_to_window)
    _, num_heads, head_size = query.shape
    _, page, num_kv_heads, _ = key_cache.shape
    ranges = checked_ranges(ranges, batch.num_seqs)
    tensors = {"query": query, "key_cache": key_cache, "value_cache": value_cache, "ranges": ranges}
    check_one_device(tensors | {"output": output})
    group = num_heads // num_kv_heads
    if output is None:
        output = torch.empty_like(query, memory_format=torch.contiguous_format)
    else:
        check_output(output, query)
    if not batch.max_query_len:
        return output
    shared_memory = shared_memory_of(query.device)
    tile = choose_tile(query.dtype, head_size, group, batch.max_query_len, shared_memory)
    query_tiles = triton.cdiv(batch.max_query_len, tile.block_m // group)
    launch(
        prefix_attention_kernel,
        (query_tiles, batch.num_seqs, num_kv_heads),
        output,
        query,
        key_cache,
        value_cache,
        batch.block_table,
        batch.seq_lens,
        batch.query_start_loc,
        batch.seq_lens if ranges is None else ranges,
        0 if ranges is None else ranges.shape[1],
        (head_size**-0.5 if scale is None else scale) * LOG2_E,
        output.stride(0),
        query.stride(0),
        key_cache.stride(0),
        key_cache.stride(1),
        batch.block_table.stride(0),
        GROUP=group,
        HEAD_SIZE=head_size,
        HEAD_PADDED=triton.next_power_of_2(head_size),
        PAGE=page,
        WINDOW=window or 0,
        CLAMP_TO_WINDOW=clamp_to_window,
        HAS_RANGES=ranges is not None,
        UPCAST=shared_memory == INTERPRETED and query.dtype == torch.bfloat16,
        BLOCK_M=tile.block_m,
        BLOCK_N=tile.block_n,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        work=lambda: attention_work(query, num_kv_heads, batch.scheduled, window),
    )
    return output


@triton.jit(
    # One compiled kernel serves all values of max_ranges and block_table_stride, and slices of a
    # batch that start at any address.
    do_not_specialize=["max_ranges", "block_table_stride"],
    do_not_specialize_on_alignment=["ranges", "block_table", "seq_lens", "query_start_loc"],
)
def prefix_attention_kernel(
    output,  # [num_tokens, num_heads, HEAD_SIZE]
    query,  # [num_tokens, num_heads, HEAD_SIZE]
    key_cache,  # [num_blocks, PAGE, num_kv_heads, HEAD_SIZE]
    value_cache,  # [num_blocks, PAGE, num_kv_heads, HEAD_SIZE]
    block_table,  # [num_seqs, max_blocks] int32
    seq_lens,  # [num_seqs] int32
    query_start_loc,  # [num_seqs + 1] int32
    ranges,  # [num_seqs, max_ranges, 2] int32, contiguous; not read without HAS_RANGES
    max_ranges,
    scale,
    output_stride,
    query_stride,
    cache_block_stride,
    cache_slot_stride,
    block_table_stride,
    GROUP: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    PAGE: tl.constexpr,
    WINDOW: tl.constexpr,
    CLAMP_TO_WINDOW: tl.constexpr,
    HAS_RANGES: tl.constexpr,
    UPCAST: tl.constexpr,  # the interpreter's tl.dot reads bfloat16 as integers
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """Computes the attention of BLOCK_M // GROUP tokens of one sequence, for all GROUP query heads
    of one KV head.

    A key is allowed iff it is causal and inside the window, or a range contains both the query's
    and the key's absolute position. All valid ranges that contain one query overlap at that query,
    so together they are one span of keys. The program first finds that span for each of its
    queries, so its key loop costs the same for any number of ranges.
    """
    TOKENS: tl.constexpr = BLOCK_M // GROUP
    sequence = tl.program_id(1).to(tl.int64)  # offsets into a large cache need 64 bits
    first_head_offset = tl.program_id(2).to(tl.int64) * HEAD_SIZE
    first_row = tl.load(query_start_loc + sequence).to(tl.int64)
    query_len = tl.load(query_start_loc + sequence + 1) - first_row
    first_token = tl.program_id(0).to(tl.int64) * TOKENS
    if first_token >= query_len:
        return
    kv_len = tl.load(seq_lens + sequence)

    row = tl.arange(0, BLOCK_M)
    token = row // GROUP
    num_tokens = tl.minimum(query_len - first_token, TOKENS).to(tl.int32)
    dim = tl.arange(0, HEAD_PADDED)
    query_mask = (token < num_tokens)[:, None]
    if HEAD_SIZE < HEAD_PADDED:
        query_mask &= (dim < HEAD_SIZE)[None, :]
    token_row = first_row + first_token + token
    head_offset = (first_head_offset * GROUP + row % GROUP * HEAD_SIZE)[:, None] + dim[None, :]
    query_offset = (token_row * query_stride)[:, None] + head_offset
    query_tile = tl.load(query + query_offset, mask=query_mask, other=0.0)

    # The keys that some query of this tile may see are [first_key, end_key).
    first_position = (kv_len - query_len + first_token).to(tl.int32)
    end_position = first_position + num_tokens
    position = first_position + token
    end_key = end_position
    first_key = 0
    if WINDOW > 0:
        before_window = position - WINDOW
        first_key = tl.maximum(first_position - WINDOW + 1, 0)
    if HAS_RANGES:
        span_start = position
        span_end = position
        ranges += sequence * max_ranges * 2
        for i in range(max_ranges):
            start = tl.load(ranges + 2 * i)
            end = tl.load(ranges + 2 * i + 1)
            if start < end:
                inside = (position >= start) & (position <= end)
                span_start = tl.where(inside, tl.minimum(span_start, start), span_start)
                span_end = tl.where(inside, tl.maximum(span_end, end), span_end)
                if (start < end_position) & (end >= first_position):
                    first_key = tl.minimum(first_key, start)
                    end_key = tl.maximum(end_key, end + 1)
        if CLAMP_TO_WINDOW:
            span_start = tl.maximum(span_start, before_window + 1)
            span_end = tl.minimum(span_end, position + WINDOW - 1)
            first_key = tl.maximum(first_key, first_position - WINDOW + 1)
            end_key = tl.minimum(end_key, end_position + WINDOW - 1)
        # A span may reach past the tokens that are in the cache so far.
        span_end = tl.minimum(span_end, kv_len - 1)
        end_key = tl.minimum(end_key, kv_len)

    # A row that has met no allowed key yet gathers weights of masked keys. Its first allowed key
    # wipes them out, since the correction is then exp2(MASKED - score) = 0. Each row may see at
    # least itself.
    MASKED: tl.constexpr = -1.0e30
    highest = tl.full([BLOCK_M], MASKED, tl.float32)
    weight_sum = tl.full([BLOCK_M], 0.0, tl.float32)
    result = tl.full([BLOCK_M, HEAD_PADDED], 0.0, tl.float32)
    block_table += sequence * block_table_stride
    key_cache += first_head_offset
    value_cache += first_head_offset
    for tile_start in range(first_key // BLOCK_N * BLOCK_N, end_key, BLOCK_N):
        key_position = tile_start + tl.arange(0, BLOCK_N)
        key_exists = key_position < kv_len
        block = tl.load(block_table + key_position // PAGE, mask=key_exists, other=0).to(tl.int64)
        slot = block * cache_block_stride + (key_position % PAGE) * cache_slot_stride
        cache_offset = slot[:, None] + dim[None, :]
        cache_mask = key_exists[:, None]
        if HEAD_SIZE < HEAD_PADDED:
            cache_mask &= (dim < HEAD_SIZE)[None, :]
        key_tile = tl.load(key_cache + cache_offset, mask=cache_mask, other=0.0)
        value_tile = tl.load(value_cache + cache_offset, mask=cache_mask, other=0.0)

        allowed = key_position[None, :] <= position[:, None]
        if WINDOW > 0:
            allowed &= key_position[None, :] > before_window[:, None]
        if HAS_RANGES:
            in_span = key_position[None, :] >= span_start[:, None]
            in_span &= key_position[None, :] <= span_end[:, None]
            allowed |= in_span
        if UPCAST:
            scores = tl.dot(query_tile.to(tl.float32), tl.trans(key_tile.to(tl.float32)))
        else:
            scores = tl.dot(query_tile, tl.trans(key_tile), input_precision="ieee")
        scores = tl.where(allowed, scores * scale, MASKED)

        new_highest = tl.maximum(highest, tl.max(scores, 1))
        correction = tl.exp2(highest - new_highest)
        weights = tl.exp2(scores - new_highest[:, None])
        weight_sum = weight_sum * correction + tl.sum(weights, 1)
        result = result * correction[:, None]
        if UPCAST:
            result = tl.dot(weights, value_tile.to(tl.float32), result)
        else:
            weights = weights.to(value_tile.dtype)
            result = tl.dot(weights, value_tile, result, input_precision="ieee")
        highest = new_highest

    result = result / weight_sum[:, None]
    output_offset = (token_row * output_stride)[:, None] + head_offset
    tl.store(output + output_offset, result.to(output.dtype.element_ty), mask=query_mask)


class Tile(NamedTuple):
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int


def choose_tile(
    dtype: torch.dtype, head_size: int, group: int, max_query_len: int, shared_memory: int
) -> Tile:
    """Returns the tile sizes of a program that were the fastest on an H200, among those that fit
    into an SM's registers and `shared_memory` bytes. The tile is no larger than the longest query
    needs."""
    if shared_memory == INTERPRETED:
        tile = Tile(128, 128, 1, 1)  # the interpreter is as fast with a large tile
    elif dtype == torch.float32:
        tile = Tile(16, 16, 8, 1)  # IEEE products don't run on tensor cores.
    elif head_size <= 128:
        tile = Tile(128, 64, 4, 2)
    else:
        tile = next(tile for least, tile in WIDE_HEADS.items() if shared_memory >= least)
    largest = triton.next_power_of_2(max(16, max_query_len * group))
    if largest < tile.block_m:
        tile = tile._replace(block_m=largest, num_warps=8 if head_size > 128 else 4)
    return tile._replace(block_m=max(tile.block_m, triton.next_power_of_2(group)))


WIDE_HEADS = {192 << 10: Tile(128, 64, 8, 2), 128 << 10: Tile(128, 32, 8, 2), 0: Tile(64, 32, 8, 2)}
"""Tiles for heads of 256 in 2-byte numbers, by the bytes of shared memory that they need: a tile of
queries, and two stages of keys and values. The last one is for GPUs with 99 KiB, such as an
A10G."""


def check_shapes(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    window: int | None,
    clamp_to_window: bool,
) -> None:
    for name, tensor, shape in (
        ("query", query, "[num_tokens, num_heads, head_size]"),
        ("key_cache", key_cache, "[num_blocks, block_size, num_kv_heads, head_size]"),
    ):
        if tensor.dim() != shape.count(",") + 1 or 0 in tensor.shape[1:]:
            raise ValueError(f"{name} is of shape {list(tensor.shape)}: make it {shape}")
    _, num_heads, head_size = query.shape
    num_kv_heads = key_cache.shape[2]
    if query.dtype not in FLOATS:
        raise TypeError(f"queries of {query.dtype}: use bfloat16, float16 or float32")
    if key_cache.dtype != query.dtype or value_cache.dtype != query.dtype:
        raise TypeError(
            f"a cache of {key_cache.dtype} and {value_cache.dtype} for queries of {query.dtype}: "
            "use one type"
        )
    if not 16 <= head_size <= 256:
        raise ValueError(f"head size {head_size}: this kernel holds 16 to 256")
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} heads for {num_kv_heads} KV heads: must be a multiple")
    if key_cache.shape != value_cache.shape or key_cache.shape[3] != head_size:
        raise ValueError(
            f"caches of {tuple(key_cache.shape)} and {tuple(value_cache.shape)} for head size "
            f"{head_size}: both must be [num_blocks, block_size, num_kv_heads, head_size]"
        )
    if query.stride()[1:] != (head_size, 1):
        raise ValueError(f"query strides {query.stride()}: each token's heads must be contiguous")
    if not (key_cache.is_contiguous() and value_cache.is_contiguous()):
        raise ValueError(
            f"key_cache has strides {key_cache.stride()}, and value_cache {value_cache.stride()}: "
            "both must be contiguous"
        )
    if window is not None and window < 1:
        raise ValueError(f"window {window}: must be at least 1, or None")
    if clamp_to_window and window is None:
        raise ValueError("clamp_to_window needs a window")


def checked_ranges(ranges: torch.Tensor | RangeState | None, num_seqs: int) -> torch.Tensor | None:
    """Returns `ranges` unchanged. Raises TypeError if they are NOT_COMPUTED, and ValueError for a
    tensor that is not contiguous or not [num_seqs, max_ranges, 2] int32."""
    if ranges is RangeState.NOT_COMPUTED:
        raise TypeError(f"ranges {ranges}: give the metadata its ranges before the first layer")
    if ranges is not None and not ranges.is_contiguous():
        raise ValueError(f"range strides {ranges.stride()}: the ranges must be contiguous")
    if ranges is not None and (
        ranges.dtype != torch.int32
        or ranges.dim() != 3
        or len(ranges) != num_seqs
        or ranges.shape[2] != 2
    ):
        raise ValueError(
            f"ranges is {ranges.dtype} {list(ranges.shape)}: make it torch.int32 "
            f"[{num_seqs}, max_ranges, 2]"
        )
    return ranges


def check_output(output: torch.Tensor, query: torch.Tensor) -> None:
    """Raises ValueError unless `output` has the shape and dtype of `query` and is contiguous."""
    same = output.shape == query.shape and output.dtype == query.dtype
    if not same or not output.is_contiguous():
        raise ValueError(
            f"output is {output.dtype} {list(output.shape)} with strides {list(output.stride())}: "
            f"make it {query.dtype} {list(query.shape)}, contiguous"
        )


def attention_work(
    query: torch.Tensor, num_kv_heads: int, scheduled: Sequence[range], window: int | None
) -> Work:
    """Returns the operations and the bytes of the attention, for sim's cost model: those of its
    causal, windowed part, with each byte of Q, K, V and output counted once."""
    num_tokens, num_heads, head_size = query.shape
    reach = math.inf if window is None else window
    pairs = sum(len(p) * min((p.start + p.stop + 1) / 2, reach) for p in scheduled)
    kv_tokens = sum(min(p.stop, len(p) + reach) for p in scheduled)
    vectors = 2 * num_tokens * num_heads + 2 * kv_tokens * num_kv_heads
    return Work(
        flops=4.0 * pairs * num_heads * head_size,
        bytes=int(vectors * head_size * query.element_size()),
        tensor_cores=query.dtype != torch.float32,
    )
