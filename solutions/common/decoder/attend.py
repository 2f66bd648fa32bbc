"""Attention of a few tokens over the pages of their requests, in one launch, with what comes before
it: queries and keys are normalised and rotated, and keys and values written to the cache."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .kv_cache import KVCache
from .rotate_and_cache import HeadNorms

MOST_TOKENS = 16
"""The most tokens of a step that `attend` takes: each program reads the new keys of its request, as
one tile."""
KEYS, SPLITS, WARPS, STAGES = 64, 8, 2, 3
"""Keys that a program reads at once, and the most programs that share the keys of one token."""
MOST_HEADS = 16
"""The most query heads that share a KV head."""
LOG2_E = 1.4426950408889634


class Pages(NamedTuple):
    """The pages of a step's requests, in int32, on the device."""

    doc_ids: torch.Tensor
    """[T]: the request of each token."""
    query_start_loc: torch.Tensor
    """[R + 1]: where each request's tokens start in the step, then where the last request's
    end."""
    seq_lens: torch.Tensor
    """[R]: length of each request, this step's tokens included."""
    block_table: torch.Tensor
    """[R, P]: the blocks that are each request's pages, in order."""


def attends(qkv: torch.Tensor, cache: KVCache, num_heads: int) -> bool:
    """Returns True if `attend` takes `qkv` with this cache: a few tokens, whose heads have a power
    of two as their size."""
    num_kv_heads, size = cache.key.shape[2:]
    sizes = size >= 16 and size == triton.next_power_of_2(size)
    few = len(qkv) <= MOST_TOKENS and num_heads // num_kv_heads <= MOST_HEADS
    return few and sizes


def attend(
    qkv: torch.Tensor,
    slots: torch.Tensor,
    pages: Pages,
    cache: KVCache,
    cos_sin: torch.Tensor,
    arrived: torch.Tensor,
    *,
    num_heads: int,
    window: int | None = None,
    norms: HeadNorms | None = None,
) -> torch.Tensor:
    """Returns causal attention of T tokens over their requests' keys, [T, num_heads * head_size],
    and writes the tokens' keys and values to the cache, in one launch.

    qkv      [T, (num_heads + 2 * num_kv_heads) * head_size], T of 1 to MOST_TOKENS
    slots    [T] int32: block * page + place in the block; nothing is written for -1
    cos_sin  [num_positions, head_size] float32, from cos_sin_table
    arrived  [MOST_TOKENS, num_kv_heads] int32: zeros, which a launch leaves as zeros
    window   how many keys a token sees, its own included; None is all
    norms    an RMS norm over each head before it is rotated

    No token may see a page that another request fills in the same step.
    """
    (_, page, num_kv_heads, size), num_tokens = cache.key.shape, len(qkv)
    group = num_heads // num_kv_heads
    output = qkv.new_empty(num_tokens, num_heads * size)
    partial = qkv.new_empty(output.numel() * SPLITS, dtype=torch.float32)
    logs = qkv.new_empty(num_tokens * num_heads * SPLITS, dtype=torch.float32)
    launch(
        attend_kernel,
        (SPLITS, num_kv_heads, num_tokens),
        output,
        qkv,
        cache.key,
        cache.value,
        slots,
        *pages,
        cos_sin,
        # Without norms the kernel reads neither of these two.
        cos_sin if norms is None else norms.query,
        cos_sin if norms is None else norms.key,
        partial,
        logs,
        arrived,
        0.0 if norms is None else norms.eps,
        LOG2_E / size**0.5,
        qkv.stride(0),
        pages.block_table.stride(0),
        KV_HEADS=num_kv_heads,
        GROUP=group,
        SIZE=size,
        PAGE=page,
        WINDOW=window or 0,
        HAS_NORMS=norms is not None,
        ONES=triton.next_power_of_2(group),
        HEADS=max(16, triton.next_power_of_2(group)),
        NEW=MOST_TOKENS,
        KEYS=KEYS,
        SPLITS=SPLITS,
        UPCAST=triton.knobs.runtime.interpret,
        num_warps=WARPS,
        num_stages=STAGES,
        work=lambda: _work(qkv, pages, cache, num_heads),
    )
    return output


def _work(qkv: torch.Tensor, pages: Pages, cache: KVCache, num_heads: int) -> Work:
    """Returns the work for requests that fill their rows of the block table: the host doesn't know
    how long they are."""
    num_tokens, (page, num_kv_heads, size) = len(qkv), cache.key.shape[1:]
    keys = num_tokens * pages.block_table.shape[1] * page
    nbytes = 2 * keys * num_kv_heads * size * qkv.element_size() + 2 * qkv.nbytes
    return Work(4.0 * keys * num_heads * size, nbytes)


@triton.jit
def _turned(
    heads, inside, position, norm, eps, cos_sin, SIZE: tl.constexpr, HAS_NORM: tl.constexpr
):
    """Returns heads [N, SIZE] at the pointers `heads` [N], in their own type: normalised, and
    rotated by `position` [N]."""
    HALF: tl.constexpr = SIZE // 2
    column = tl.arange(0, SIZE)
    other = (column + HALF) % SIZE
    exists = inside[:, None]
    own = tl.load(heads[:, None] + column[None, :], mask=exists, other=0.0)
    pair = tl.load(heads[:, None] + other[None, :], mask=exists, other=0.0).to(tl.float32)
    numbers = own.to(tl.float32)
    if HAS_NORM:
        scale = 1.0 / tl.sqrt(tl.sum(numbers * numbers, 1) / SIZE + eps)
        numbers = numbers * scale[:, None] * tl.load(norm + column).to(tl.float32)[None, :]
        pair = pair * scale[:, None] * tl.load(norm + other).to(tl.float32)[None, :]
    angle = cos_sin + position.to(tl.int64)[:, None] * SIZE + (column % HALF)[None, :]
    cosine = tl.load(angle, mask=exists, other=0.0)
    sine = tl.load(angle + HALF, mask=exists, other=0.0)
    sine = tl.where((column < HALF)[None, :], -sine, sine)
    return (numbers * cosine + pair * sine).to(own.dtype)


@triton.jit
def _added(query, keys, values, seen, best, weights, total, scale, UPCAST: tl.constexpr):
    """Adds keys [SIZE, N] and values [N, SIZE] to a softmax over all keys so far."""
    if UPCAST:
        query, keys = query.to(tl.float32), keys.to(tl.float32)
    scores = tl.where(
        seen[None, :], tl.dot(query, keys, input_precision="ieee") * scale, -float("inf")
    )
    top = tl.maximum(best, tl.max(scores, 1))
    # A tile without a key leaves the maximum at -inf.
    safe = tl.where(top == -float("inf"), 0.0, top)
    shrink = tl.exp2(best - safe)
    chances = tl.exp2(scores - safe[:, None])
    weights = weights * shrink + tl.sum(chances, 1)
    chances = chances.to(values.dtype)
    if UPCAST:
        chances, values = chances.to(tl.float32), values.to(tl.float32)
    return top, weights, tl.dot(chances, values, total * shrink[:, None], input_precision="ieee")


@triton.jit
def _store_sum(
    output,
    partial,
    logs,
    pair,
    parts,
    GROUP: tl.constexpr,
    ONES: tl.constexpr,
    SIZE: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Stores the outputs of a token and KV head, [GROUP, SIZE]: the sum of all parts by weight."""
    head, column = tl.arange(0, ONES), tl.arange(0, SIZE)
    part = tl.arange(0, SPLITS)[:, None]
    exists = (part < parts) & (head < GROUP)[None, :]
    room = (pair * SPLITS + part) * GROUP + head[None, :]
    # Other programs wrote these: read them from the second cache.
    log = tl.load(logs + room, exists, -float("inf"), cache_modifier=".cg")
    place = room[:, :, None] * SIZE + column[None, None, :]
    mixed = tl.load(partial + place, exists[:, :, None], 0.0, cache_modifier=".cg")
    # A head that pads the group has no largest logarithm.
    log = tl.where((head < GROUP)[None, :], log, 0.0)
    chance = tl.exp2(log - tl.max(log, 0)[None, :])
    chance = chance / tl.sum(chance, 0)[None, :]
    total = tl.sum(mixed * chance[:, :, None], 0).to(output.dtype.element_ty)
    place = (pair * GROUP + head)[:, None] * SIZE + column[None, :]
    tl.store(output + place, total, mask=(head < GROUP)[:, None])


@triton.jit(do_not_specialize_on_alignment=["slots", "doc_ids"])
def attend_kernel(
    output,  # [T, KV_HEADS * GROUP, SIZE], contiguous
    qkv,  # [T, KV_HEADS * (GROUP + 2), SIZE], the heads of a token contiguous
    key_cache,  # [num_slots, KV_HEADS, SIZE], contiguous
    value_cache,  # likewise
    slots,  # [T] int32, -1 for none
    doc_ids,  # the tables of Pages
    query_start_loc,
    seq_lens,
    block_table,
    cos_sin,  # [num_positions, SIZE] float32: cosines, then sines
    query_norm,  # [SIZE]; not read without HAS_NORMS
    key_norm,  # likewise
    partial,  # [T, KV_HEADS, SPLITS, GROUP, SIZE] float32, the outputs of the parts
    logs,  # [T, KV_HEADS, SPLITS, GROUP] float32, the logarithms of their weights
    arrived,  # [T, KV_HEADS] int32, zeros before and after
    eps,
    scale,
    qkv_stride,
    num_pages,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    SIZE: tl.constexpr,
    PAGE: tl.constexpr,
    WINDOW: tl.constexpr,  # 0 for none
    HAS_NORMS: tl.constexpr,
    ONES: tl.constexpr,  # a power of two, at least GROUP
    HEADS: tl.constexpr,  # a power of two, at least GROUP and 16
    NEW: tl.constexpr,
    KEYS: tl.constexpr,
    SPLITS: tl.constexpr,
    UPCAST: tl.constexpr,  # the interpreter's tl.dot mistakes bfloat16 for integers
):
    """Attends from one token, for one KV head, to one of up to SPLITS parts of its keys. The last
    program of the token and head to finish adds the parts."""
    part, kv_head, token = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    head = tl.arange(0, HEADS)
    is_head = head < GROUP
    column = tl.arange(0, SIZE)
    request = tl.load(doc_ids + token)
    began = tl.load(query_start_loc + request)
    ended = tl.load(query_start_loc + request + 1)
    cached = tl.load(seq_lens + request) - (ended - began)
    position = cached + token - began
    first = 0
    if WINDOW > 0:
        first = tl.maximum(position - WINDOW + 1, 0)
    count = tl.maximum(cached - first, 0)
    share = tl.cdiv(tl.cdiv(count, SPLITS), KEYS) * KEYS
    share = tl.maximum(share, KEYS)
    parts = tl.maximum(tl.cdiv(count, share), 1)
    pair = token * KV_HEADS + kv_head
    of_output = output + (pair * GROUP + head)[:, None] * SIZE + column[None, :]
    if (part == 0) & (token >= ended):
        # This token pads the batch, and sees nothing.
        nothing = tl.zeros((HEADS, SIZE), output.dtype.element_ty)
        tl.store(of_output, nothing, mask=is_head[:, None])
    if (part < parts) & (token < ended):
        of_token = qkv + token.to(tl.int64) * qkv_stride
        of_query = of_token + (kv_head * GROUP + head) * SIZE
        at = tl.full((HEADS,), position, tl.int32)
        query = _turned(of_query, is_head, at, query_norm, eps, cos_sin, SIZE, HAS_NORMS)
        best = tl.full((HEADS,), -float("inf"), tl.float32)
        weights = tl.zeros((HEADS,), tl.float32)
        total = tl.zeros((HEADS, SIZE), tl.float32)
        end = tl.minimum(first + (part + 1) * share, cached)
        for start in range(first + part * share, end, KEYS):
            place = start + tl.arange(0, KEYS)
            seen = place < end
            page = tl.load(block_table + request * num_pages + place // PAGE, mask=seen, other=0)
            row = ((page.to(tl.int64) * PAGE + place % PAGE) * KV_HEADS + kv_head) * SIZE
            keys = tl.load(key_cache + row[None, :] + column[:, None])
            values = tl.load(value_cache + row[:, None] + column[None, :])
            best, weights, total = _added(
                query, keys, values, seen, best, weights, total, scale, UPCAST
            )
        if part == parts - 1:
            # The keys of this step come from qkv: the cache gets them in this launch.
            new = began + tl.arange(0, NEW)
            seen = new <= token
            if WINDOW > 0:
                seen = seen & (token - new < WINDOW)
            of_new = qkv + new.to(tl.int64) * qkv_stride
            of_key = of_new + (KV_HEADS * GROUP + kv_head) * SIZE
            of_value = of_key + KV_HEADS * SIZE
            at = cached + tl.arange(0, NEW)
            keys = _turned(of_key, seen, at, key_norm, eps, cos_sin, SIZE, HAS_NORMS)
            values = tl.load(of_value[:, None] + column[None, :], mask=seen[:, None], other=0.0)
            best, weights, total = _added(
                query, tl.trans(keys), values, seen, best, weights, total, scale, UPCAST
            )
            slot = tl.load(slots + token)
            row = (slot.to(tl.int64) * KV_HEADS + kv_head) * SIZE
            is_own = ((new == token) & (slot >= 0))[:, None]
            own = row + tl.zeros((NEW,), tl.int64)
            tl.store(key_cache + own[:, None] + column[None, :], keys, mask=is_own)
            tl.store(value_cache + own[:, None] + column[None, :], values, mask=is_own)
        mixed = total / weights[:, None]
        if parts == 1:
            tl.store(of_output, mixed.to(output.dtype.element_ty), mask=is_head[:, None])
        else:
            room = (pair * SPLITS + part) * GROUP + head
            tl.store(partial + room[:, None] * SIZE + column[None, :], mixed, is_head[:, None])
            tl.store(logs + room, best + tl.log2(weights), is_head)
            tl.debug_barrier()
            if tl.atomic_add(arrived + pair, 1, sem="acq_rel") == parts - 1:
                tl.store(arrived + pair, 0)
                _store_sum(output, partial, logs, pair, parts, GROUP, ONES, SIZE, SPLITS)
