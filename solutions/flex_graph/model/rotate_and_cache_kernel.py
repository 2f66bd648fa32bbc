"""Rotary positions and the write to the KV cache: each number is read once, and written once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # However many tokens a step has, it is the same compiled kernel.
    do_not_specialize=["num_rows"],
    do_not_specialize_on_alignment=["positions", "slots"],
)
def rotate_and_cache_kernel(
    qkv,  # [num_tokens, QUERY_HEADS + 2 * KV_HEADS, SIZE], the heads of a token contiguous
    key_cache,  # [num_slots, KV_HEADS, SIZE], contiguous
    value_cache,  # likewise
    positions,  # [num_tokens] int32
    slots,  # [num_tokens] int32, -1 for none
    cos_sin,  # [num_positions, SIZE] float32, contiguous: cosines, then sines
    num_rows,  # heads of all tokens
    qkv_stride,
    QUERY_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,  # a power of two, at least SIZE // 2
):
    """One program: ROWS heads, of one token or of several."""
    HEADS: tl.constexpr = QUERY_HEADS + 2 * KV_HEADS
    HALF: tl.constexpr = SIZE // 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    exists = row < num_rows
    token = row // HEADS
    head = row % HEADS
    pair = tl.arange(0, BLOCK)
    inside = exists[:, None] & (pair < HALF)[None, :]

    # A large step, and a large cache all the more, need 64 bits.
    place = (token.to(tl.int64) * qkv_stride + head * SIZE)[:, None] + pair[None, :]
    first = tl.load(qkv + place, mask=inside, other=0.0)
    second = tl.load(qkv + place + HALF, mask=inside, other=0.0)
    position = tl.load(positions + token, mask=exists, other=0).to(tl.int64)
    angle = (position * SIZE)[:, None] + pair[None, :]
    cosine = tl.load(cos_sin + angle, mask=inside, other=0.0)
    sine = tl.load(cos_sin + angle + HALF, mask=inside, other=0.0)
    turned = first.to(tl.float32) * cosine - second.to(tl.float32) * sine
    turned_second = second.to(tl.float32) * cosine + first.to(tl.float32) * sine
    turned = turned.to(first.dtype)
    turned_second = turned_second.to(first.dtype)

    is_query = inside & (head < QUERY_HEADS)[:, None]
    tl.store(qkv + place, turned, mask=is_query)
    tl.store(qkv + place + HALF, turned_second, mask=is_query)

    slot = tl.load(slots + token, mask=exists, other=-1).to(tl.int64)
    is_cached = inside & (slot >= 0)[:, None]
    key_head = head - QUERY_HEADS
    is_key = is_cached & ((key_head >= 0) & (key_head < KV_HEADS))[:, None]
    place = ((slot * KV_HEADS + key_head) * SIZE)[:, None] + pair[None, :]
    tl.store(key_cache + place, turned, mask=is_key)
    tl.store(key_cache + place + HALF, turned_second, mask=is_key)

    is_value = is_cached & (key_head >= KV_HEADS)[:, None]
    place -= KV_HEADS * SIZE
    tl.store(value_cache + place, first, mask=is_value)
    tl.store(value_cache + place + HALF, second, mask=is_value)
