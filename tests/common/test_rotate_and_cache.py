"""Rotary positions and the cache write, compared with PyTorch in double precision."""

import math

import pytest
import torch

import debubble
from solutions.common.decoder.kv_cache import KVCache
from solutions.common.decoder.rotate_and_cache import (
    TILE,
    HeadNorms,
    cos_sin_table,
    rotate_and_cache,
)
from tests.common import claims
from tests.common.refusals import changed, expect_refused
from tests.far_apart import HALF, address_space, only_the_kernels

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}
"""The largest absolute error of numbers around 1, by type."""
LEFT_THERE = 7.0
"""The initial value of every slot."""
NUM_BLOCKS, PAGE, POSITIONS = 4, 16, 300


def random_args(accelerator, num_tokens, heads, size, dtype=torch.float32):
    """Returns random arguments of the op, by name. `heads` is (number of query heads, number of KV
    heads). Slots are shuffled, positions arbitrary."""
    num_heads, num_kv_heads = heads
    random = torch.Generator().manual_seed(1)
    qkv = torch.randn(num_tokens, (num_heads + 2 * num_kv_heads) * size, generator=random)
    send = lambda tensor: tensor.to(torch.int32).to(accelerator.device)
    slots = torch.randperm(NUM_BLOCKS * PAGE - PAGE, generator=random)[:num_tokens] + PAGE
    cache = KVCache(NUM_BLOCKS, PAGE, num_kv_heads, size, dtype, accelerator.device)
    cache.key.fill_(LEFT_THERE)
    cache.value.fill_(LEFT_THERE)
    return {
        "qkv": qkv.to(dtype).to(accelerator.device),
        "positions": send(torch.randint(POSITIONS, (num_tokens,), generator=random)),
        "slots": send(slots),
        "cos_sin": cos_sin_table(POSITIONS, size, 500_000.0, accelerator.device),
        "cache": cache,
        "num_heads": num_heads,
    }


def turned(heads, positions, theta=500_000.0):
    """Returns the heads, [T, H, D] float64 on the CPU, rotated to their positions: numbers i and i
    + D / 2 of a head are one complex number."""
    heads = heads.cpu().double()
    half = heads.shape[-1] // 2
    rates = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = positions.cpu().double()[:, None, None] * rates
    pairs = torch.complex(heads[..., :half], heads[..., half:])
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], -1)


def expect_right(args, call=rotate_and_cache):
    """Calls the op, and checks the rotated queries, the written slots of the cache, and that all
    else is unchanged."""
    cache, num_heads = args["cache"], args["num_heads"]
    num_kv_heads, size = cache.key.shape[2:]
    qkv = args["qkv"].cpu().clone()
    before = qkv.unflatten(1, (-1, size))
    query, key, value = before.split([num_heads, num_kv_heads, num_kv_heads], dim=1)
    result = call(**args)
    assert result.shape == query.shape
    assert result.data_ptr() == args["qkv"].data_ptr(), "the queries stay where they are"
    tolerance = TOLERANCE[result.dtype]
    assert (result.cpu() - turned(query, args["positions"])).abs().max() < tolerance
    assert torch.equal(args["qkv"].cpu()[:, num_heads * size :], qkv[:, num_heads * size :])

    slots = args["slots"].cpu().long()
    written = slots >= 0
    keys, values = (x.cpu().flatten(0, 1) for x in (cache.key, cache.value))
    right = turned(key, args["positions"])[written]
    assert (keys[slots[written]] - right).abs().max() < tolerance
    assert torch.equal(values[slots[written]], value[written]), "values stay as they are"
    others = torch.ones(len(keys), dtype=torch.bool)
    others[slots[written]] = False
    assert (keys[others] == LEFT_THERE).all() and (values[others] == LEFT_THERE).all()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    ("num_tokens", "heads", "size"),
    [(1, (1, 1), 16), (3, (4, 1), 16), (7, (4, 4), 64), (5, (4, 2), 24), (2, (8, 2), 128)],
    ids=str,
)
def test_queries_and_keys_are_turned_and_cached(accelerator, num_tokens, heads, size, dtype):
    expect_right(random_args(accelerator, num_tokens, heads, size, dtype))


@pytest.mark.parametrize("size", [16, 24])
def test_heads_may_be_normed_before_they_are_turned(accelerator, size):
    args = random_args(accelerator, 5, (4, 2), size)
    random = torch.Generator().manual_seed(2)
    weights = torch.rand(2, size, generator=random) + 0.5
    norms = HeadNorms(*weights.to(accelerator.device), eps=1e-3)
    heads = args["qkv"].cpu().unflatten(1, (-1, size))
    query, key = (
        turned(torch.nn.functional.rms_norm(part, (size,), weight, 1e-3), args["positions"])
        for part, weight in zip((heads[:, :4], heads[:, 4:6]), weights, strict=True)
    )
    found = rotate_and_cache(**args, norms=norms)
    keys = args["cache"].key.cpu().flatten(0, 1)[args["slots"].cpu().long()]
    assert (found.cpu() - query).abs().max() < TOLERANCE[torch.float32]
    assert (keys - key).abs().max() < TOLERANCE[torch.float32]


def test_a_token_may_begin_in_one_program_and_end_in_the_next(accelerator):
    rows = TILE // 8
    assert rows % 6
    expect_right(random_args(accelerator, 2 * rows // 6 + 1, (4, 1), 16))


def test_slot_minus_one_writes_nothing(accelerator):
    args = random_args(accelerator, 5, (4, 1), 16)
    args["slots"][1:4].fill_(-1)
    expect_right(args)
    args["slots"].fill_(-1)
    args["cache"].key.fill_(LEFT_THERE)
    args["cache"].value.fill_(LEFT_THERE)
    rotate_and_cache(**args)
    assert (args["cache"].key.cpu() == LEFT_THERE).all()
    assert (args["cache"].value.cpu() == LEFT_THERE).all()


def test_the_first_and_the_last_slot(accelerator):
    args = random_args(accelerator, 2, (2, 1), 16)
    args["slots"].copy_(torch.tensor([0, NUM_BLOCKS * PAGE - 1], dtype=torch.int32))
    expect_right(args)


def test_values_that_are_not_finite_stay_as_they_are(accelerator):
    args = random_args(accelerator, 2, (2, 1), 16)
    args["qkv"][1, 50].fill_(torch.inf)
    rotate_and_cache(**args)
    value = args["cache"].value.cpu().flatten(0, 1)[args["slots"].cpu().long()]
    assert torch.equal(value.flatten(1), args["qkv"].cpu()[:, 48:])


def test_rows_of_a_wider_tensor(accelerator):
    args = random_args(accelerator, 3, (4, 1), 16)
    wide = torch.zeros(3, 128, device=accelerator.device)
    wide[:, :96].copy_(args["qkv"])
    args["qkv"] = wide[:, :96]
    expect_right(args)
    assert not wide[:, 96:].any()


def test_an_empty_step_is_nothing(accelerator):
    args = random_args(accelerator, 0, (4, 1), 16)
    assert rotate_and_cache(**args).shape == (0, 4, 16)


def test_one_launch_and_nobody_waits(accelerator):
    args = random_args(accelerator, 3, (4, 1), 16)
    call = lambda: rotate_and_cache(**args)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=0)
    assert (counts["kernels"], counts["d2d"]) == (1, 0)


def test_a_graph_reads_positions_and_slots_of_its_replay(accelerator):
    args = random_args(accelerator, 4, (4, 1), 16)
    qkv, slots = args["qkv"].clone(), args["slots"].clone()
    args["slots"].fill_(-1)
    graph, _ = claims.captured(accelerator, lambda: rotate_and_cache(**args))

    def replayed(qkv, positions, slots, cos_sin, cache, num_heads):
        graph.replay()
        return qkv[:, : num_heads * 16].unflatten(1, (num_heads, 16))

    for position in (5, 250):
        args["qkv"].copy_(qkv)
        args["slots"].copy_(slots)
        args["positions"].fill_(position)
        expect_right(args, replayed)


@pytest.fixture
def far_apart(accelerator, monkeypatch):
    """Returns far_apart(place, size), which returns `size` float16 numbers from index `place` on,
    in a memory of more than 2**32 numbers."""
    only_the_kernels(accelerator, monkeypatch, "solutions.common.decoder.rotate_and_cache")
    numbers = address_space(accelerator, torch.float16)
    return lambda place, size: numbers[place : place + size]


@pytest.mark.gpu_memory(9)
def test_offsets_in_a_large_cache_have_64_bits(accelerator, far_apart):
    """Keys and values are written to the right slots of a cache whose offsets exceed 32 bits. There
    is memory below the cache too, which a 32-bit offset would reach by mistake."""
    args = random_args(accelerator, 3, (2, 1), 16, torch.float16)
    device = far_apart(0, 1).device
    args |= {name: args[name].to(device) for name in ("qkv", "positions", "cos_sin")}
    first_key, first_value = HALF, HALF + 2**20
    slots = [HALF // 16 + 3, HALF // 16 - 1, 5]
    args["slots"] = torch.tensor(slots, dtype=torch.int32).to(device)
    cache = args["cache"]
    cache.key, cache.value = (
        far_apart(first, PAGE * 16).view(1, PAGE, 1, 16) for first in (first_key, first_value)
    )
    key, value = args["qkv"].cpu().clone()[:, 32:].chunk(2, dim=1)
    rotate_and_cache(**args)
    right = turned(key[:, None], args["positions"])[:, 0]
    for row, slot in enumerate(slots):
        found = far_apart(first_key + slot * 16, 16).cpu()
        assert (found - right[row]).abs().max() < TOLERANCE[torch.float16]
        assert torch.equal(far_apart(first_value + slot * 16, 16).cpu(), value[row])


@pytest.mark.parametrize("num_blocks", [2**31 // (16 * 8 * 128), 10**9])
def test_a_cache_beyond_the_indices_of_flex_attention_is_refused(num_blocks):
    numbers = num_blocks * 16 * 8 * 128
    message = f"{num_blocks} blocks of 16 tokens .* {numbers} .* 2147483648: use at most 131071 "
    with pytest.raises(ValueError, match=message):
        KVCache(num_blocks, 16, 8, 128, torch.bfloat16, torch.device("meta"))


def test_the_largest_cache_is_not():
    largest = KVCache(131_071, 16, 8, 128, torch.bfloat16, torch.device("meta"))
    key, value = largest.as_heads()
    assert key.shape == value.shape == (1, 8, 131_071 * 16, 128)


def test_the_heads_of_a_cache_are_views(accelerator):
    cache = KVCache(2, 16, 3, 8, torch.float32, accelerator.device)
    cache.key[1, 2, 1, 4].fill_(5.0)
    cache.value[1, 3, 2, 0].fill_(6.0)
    key, value = cache.as_heads()
    assert key[0, 1, 18, 4].item() == 5.0
    assert value[0, 2, 19, 0].item() == 6.0
    assert key.sum().item() + value.sum().item() == 11.0


def test_angles_are_exact_at_far_positions(accelerator):
    table = cos_sin_table(131_072, 8, 500_000.0, accelerator.device).cpu()
    for position in (0, 1, 4095, 131_071):
        angles = [position * 500_000.0 ** (-pair / 4) for pair in range(4)]
        right = [*map(math.cos, angles), *map(math.sin, angles)]
        assert (table[position] - torch.tensor(right)).abs().max() < 1e-6


def test_the_table_is_made_on_the_device(accelerator):
    with debubble.record(accelerator) as timeline:
        cos_sin_table(16, 8, 500_000.0, accelerator.device)
    counts = timeline.counts()
    assert counts["h2d_pageable"] == counts["h2d_pinned"] == counts["host_syncs"] == 0


BAD_ARGUMENTS = {
    r"qkv of shape \[3, 95\] .* make it \[T, 96\]": {"qkv": lambda x: x[:, :95]},
    r"qkv of shape \[3, 96\] and strides \(1, 3\)": {"qkv": lambda x: x.t().contiguous().t()},
    "qkv of torch.float16 for a cache of torch.float32": {"qkv": lambda x: x.half()},
    "qkv of torch.float64": {"qkv": lambda x: x.double()},
    r"positions is torch.int64 \[3\]": {"positions": lambda x: x.long()},
    r"slots is torch.int32 \[2\]: make it torch.int32 \[3\]": {"slots": lambda x: x[:2]},
    r"cos_sin is torch.float32 \[300, 8\]: .* \[num_positions, 16\]": {
        "cos_sin": lambda x: x[:, :8]
    },
    "cos_sin is torch.float64": {"cos_sin": lambda x: x.double()},
}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    args = random_args(accelerator, 3, (4, 1), 16)
    bad = changed(args, BAD_ARGUMENTS[message])
    caches = args["cache"].key, args["cache"].value
    expect_refused(accelerator, lambda: rotate_and_cache(**bad), message, unchanged=caches)
