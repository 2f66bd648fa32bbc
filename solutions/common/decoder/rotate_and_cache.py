"""The step between projection and attention, in one kernel: it normalises queries and keys in
models that do so, rotates them, and writes keys and values to the cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .kv_cache import KVCache
from .shape import FLOATS

TILE = 1024
"""Pairs of numbers that one program rotates: those of a few heads, so that it has enough to load at
once."""


@dataclass
class HeadNorms:
    """RMS norms over single heads: x / sqrt(mean(x²) + eps) * weight, computed in float32."""

    query: torch.Tensor
    """[head_size] of the activations' dtype or float32, for the heads of queries."""
    key: torch.Tensor
    """[head_size] of the activations' dtype or float32, for the heads of keys."""
    eps: float


def rotate_and_cache(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    cos_sin: torch.Tensor,
    cache: KVCache,
    num_heads: int,
    norms: HeadNorms | None = None,
) -> torch.Tensor:
    """Rotates queries in place in `qkv`, and returns them, [T, num_heads, head_size]. Writes
    rotated keys and unchanged values to their slots of the cache, in the same launch (vLLM #36298).

    qkv        [T, (num_heads + 2 * num_kv_heads) * head_size] of the cache's dtype, a token's heads
               contiguous
    positions  [T] int32, rows of cos_sin
    slots      [T] int32: block * page + place in the block; nothing is written for -1
    cos_sin    [num_positions, head_size] float32, from cos_sin_table
    norms      an RMS norm over each head before it is rotated, as in Qwen3 and Gemma 3

    Raises ValueError for other tensors. The caller checks the values of positions and slots.
    """
    num_kv_heads, size = cache.key.shape[2:]
    num_rows = len(qkv) * (num_heads + 2 * num_kv_heads)
    _check(qkv, positions, slots, cos_sin, cache, num_heads)
    _check_norms(norms, size, qkv.dtype)
    block = triton.next_power_of_2(size // 2)
    rows = max(1, TILE // block)
    launch(
        rotate_and_cache_kernel,
        (triton.cdiv(num_rows, rows),),
        qkv,
        cache.key,
        cache.value,
        positions,
        slots,
        cos_sin,
        # Without norms the kernel reads neither of these two.
        cos_sin if norms is None else norms.query,
        cos_sin if norms is None else norms.key,
        0.0 if norms is None else norms.eps,
        num_rows,
        qkv.stride(0),
        QUERY_HEADS=num_heads,
        KV_HEADS=num_kv_heads,
        SIZE=size,
        HAS_NORMS=norms is not None,
        ROWS=rows,
        BLOCK=block,
        num_warps=4,
        work=lambda: Work(3.0 * qkv.numel(), 2 * qkv.nbytes, tensor_cores=False),
    )
    return qkv[:, : num_heads * size].unflatten(1, (num_heads, size))


@triton.jit(
    # One compiled kernel serves any number of tokens.
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
    query_norm,  # [SIZE]; not read without HAS_NORMS
    key_norm,  # likewise
    eps,
    num_rows,  # heads of all tokens
    qkv_stride,
    QUERY_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    HAS_NORMS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,  # a power of two, at least SIZE // 2
):
    """Rotates or caches ROWS heads in each program: heads of queries, keys and values, of one token
    or of several."""
    HEADS: tl.constexpr = QUERY_HEADS + 2 * KV_HEADS
    HALF: tl.constexpr = SIZE // 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    exists = row < num_rows
    token = row // HEADS
    head = row % HEADS
    pair = tl.arange(0, BLOCK)
    inside = exists[:, None] & (pair < HALF)[None, :]

    # A large step, and even more a large cache, needs 64-bit offsets.
    place = (token.to(tl.int64) * qkv_stride + head * SIZE)[:, None] + pair[None, :]
    first = tl.load(qkv + place, mask=inside, other=0.0)
    second = tl.load(qkv + place + HALF, mask=inside, other=0.0)
    turnable = first.to(tl.float32)
    turnable_second = second.to(tl.float32)
    if HAS_NORMS:
        squares = tl.sum(turnable * turnable + turnable_second * turnable_second, 1)
        scale = 1.0 / tl.sqrt(squares / SIZE + eps)
        of_query = (head < QUERY_HEADS)[:, None] & (pair < HALF)[None, :]
        of_key = (head >= QUERY_HEADS)[:, None] & (pair < HALF)[None, :]
        weight = tl.load(query_norm + pair[None, :], mask=of_query, other=0.0).to(tl.float32)
        weight += tl.load(key_norm + pair[None, :], mask=of_key, other=0.0).to(tl.float32)
        turnable = turnable * scale[:, None] * weight
        weight = tl.load(query_norm + HALF + pair[None, :], mask=of_query, other=0.0).to(tl.float32)
        weight += tl.load(key_norm + HALF + pair[None, :], mask=of_key, other=0.0).to(tl.float32)
        turnable_second = turnable_second * scale[:, None] * weight
    position = tl.load(positions + token, mask=exists, other=0).to(tl.int64)
    angle = (position * SIZE)[:, None] + pair[None, :]
    cosine = tl.load(cos_sin + angle, mask=inside, other=0.0)
    sine = tl.load(cos_sin + angle + HALF, mask=inside, other=0.0)
    turned = turnable * cosine - turnable_second * sine
    turned_second = turnable_second * cosine + turnable * sine
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


def cos_sin_table(
    num_positions: int, head_size: int, theta: float, device: torch.device
) -> torch.Tensor:
    """Returns [num_positions, head_size] float32: the cosines of a position's head_size / 2 angles,
    then their sines. Doesn't upload anything.

    Pair i, the numbers i and i + head_size / 2 of a head, turns by theta^(-2i / head_size) radians
    from one position to the next.
    """
    pairs = torch.arange(0, head_size, 2, dtype=torch.float64, device=device)
    return cos_sin_of(torch.pow(theta, -pairs / head_size), num_positions)


def cos_sin_of(frequencies: torch.Tensor, num_positions: int) -> torch.Tensor:
    """Returns the table of `cos_sin_table`, [num_positions, head_size] float32, for other
    `frequencies` [head_size / 2] float64, and on their device: the angle in radians by which each
    pair turns from one position to the next. 0 leaves a pair as it is."""
    # In float32 the angle of position 100,000 would be off by a hundredth.
    positions = torch.arange(num_positions, dtype=torch.float64, device=frequencies.device)
    angles = positions[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], dim=1).to(torch.float32)


def _check_norms(norms: HeadNorms | None, size: int, dtype: torch.dtype) -> None:
    if norms is None:
        return
    for name, weight in (("query", norms.query), ("key", norms.key)):
        right = weight.shape == (size,) and weight.dtype in (dtype, torch.float32)
        if not right or not weight.is_contiguous():
            raise ValueError(
                f"the norm of each {name} is {weight.dtype} {list(weight.shape)}: make it {dtype} "
                f"or torch.float32 [{size}], contiguous"
            )


def _check(
    qkv: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    cos_sin: torch.Tensor,
    cache: KVCache,
    num_heads: int,
) -> None:
    num_kv_heads, size = cache.key.shape[2:]
    width = (num_heads + 2 * num_kv_heads) * size
    if qkv.dim() != 2 or qkv.shape[1] != width or qkv.stride(1) != 1:
        raise ValueError(
            f"qkv of shape {list(qkv.shape)} and strides {qkv.stride()}: for {num_heads} heads, "
            f"{num_kv_heads} KV heads and head size {size} make it [T, {width}], a token's heads "
            "contiguous"
        )
    if qkv.dtype not in FLOATS or not qkv.dtype == cache.key.dtype == cache.value.dtype:
        raise ValueError(
            f"qkv of {qkv.dtype} for a cache of {cache.key.dtype}: use one type, bfloat16, float16 "
            "or float32"
        )
    for name, tensor in (("positions", positions), ("slots", slots)):
        right = tensor.shape == (len(qkv),) and tensor.dtype == torch.int32
        if not right or not tensor.is_contiguous():
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}: make it torch.int32 "
                f"[{len(qkv)}], contiguous"
            )
    right = cos_sin.dim() == 2 and cos_sin.shape[1] == size and cos_sin.dtype == torch.float32
    if not right or not cos_sin.is_contiguous():
        raise ValueError(
            f"cos_sin is {cos_sin.dtype} {list(cos_sin.shape)}: make it torch.float32 "
            f"[num_positions, {size}], contiguous"
        )
