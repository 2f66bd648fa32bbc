"""The attention kernel: causal, with a sliding window and prefix ranges, over a paged KV cache.

A key is allowed iff it is causal and inside the window, or a range holds both the query's and the
key's absolute position. All valid ranges that hold one query overlap there, so together they are
one span of keys: each program finds that span for each of its queries first, and its key loop
costs the same however many ranges there are.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # Whatever these hold, and wherever a slice of a batch starts, it is the same compiled kernel.
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
    UPCAST: tl.constexpr,  # the interpreter's tl.dot takes bfloat16 for integers
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """One program: one sequence, one KV head, BLOCK_M // GROUP tokens with all GROUP heads."""
    TOKENS: tl.constexpr = BLOCK_M // GROUP
    sequence = tl.program_id(1).to(tl.int64)  # Offsets into a large cache need 64 bits.
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

    # The keys that some query of this tile may see: [first_key, end_key).
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

    # A row without an allowed key so far gathers weights that the first allowed key wipes out:
    # the correction is then exp2(MASKED - score) = 0. Each row is allowed to see itself.
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
