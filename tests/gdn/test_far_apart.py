"""Offsets beyond 32 bits: results equal those of the same numbers close together. A slot times the
size of a state is such an offset from slot 4,096 on, with 32 heads (FlashInfer #3230)."""

import pytest
import torch

from solutions.gdn.model.conv_update import causal_conv1d_update
from solutions.gdn.model.gated_norm import gated_rms_norm
from solutions.gdn.model.gating import fused_gdn_gating
from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from solutions.gdn.rule.recurrent import fused_recurrent_gated_delta_rule
from tests.far_apart import HALF, only_the_kernels, spreading

pytestmark = pytest.mark.gpu_memory(27)
LAUNCHERS = [
    *("solutions.gdn.model." + name for name in ("conv_update", "gated_norm", "gating")),
    *("solutions.gdn.rule." + name for name in ("recurrent", "solve_chunks", "pass_states")),
    "solutions.gdn.rule.read_outputs",
]


@pytest.fixture
def spread(accelerator, monkeypatch):
    only_the_kernels(accelerator, monkeypatch, *LAUNCHERS)
    return spreading(accelerator)


@pytest.fixture
def numbers(spread):
    """Returns numbers(*shape), which returns random numbers in memory that the kernels can read, on
    sim too."""
    device = spread(torch.zeros(1)).device
    random = torch.Generator().manual_seed(2)
    return lambda *shape: torch.randn(shape, generator=random).to(device)


def integers(*values):
    return lambda like: torch.tensor(values, dtype=torch.int32, device=like.device)


def expect_same(found, right):
    torch.testing.assert_close(
        found, right, rtol=1e-5, atol=1e-5, msg="an offset of 32 bits reaches other memory"
    )


def tokens(numbers, num_tokens, size=16):
    """Returns random inputs of the delta rule with one head for `num_tokens` tokens, by name of the
    argument."""
    return {
        "q": numbers(1, num_tokens, 1, size),
        "k": torch.nn.functional.normalize(numbers(1, num_tokens, 1, size), dim=-1),
        "v": numbers(1, num_tokens, 1, size),
        "g": -numbers(1, num_tokens, 1).abs(),
        "beta": numbers(1, num_tokens, 1).sigmoid(),
    }


def test_tokens_states_and_slots_of_the_recurrence(spread, numbers):
    close, states = tokens(numbers, 3), numbers(3, 1, 16, 16)
    slots, accepted = integers([2, 0], [0, 2], [1, 2])(states), integers(1, 1, 1)(states)
    apart = {name: spread(tensor, 1) for name, tensor in close.items()}
    for given in (None, accepted):
        indices = slots[:, 0].contiguous() if given is None else slots
        rest = {"num_accepted_tokens": given}
        right, after = fused_recurrent_gated_delta_rule(
            **close, **rest, initial_state=states.clone(), ssm_state_indices=indices
        )
        found, left = fused_recurrent_gated_delta_rule(
            **apart, **rest, initial_state=spread(states), ssm_state_indices=spread(indices)
        )
        expect_same(found, right)
        expect_same(left.clone(), after)


def test_what_the_recurrence_writes(numbers):
    num_tokens, size = HALF // 256 + 2, 256
    one = tokens(numbers, 1, size)
    many, last = (
        {name: tensor.expand(1, count, *tensor.shape[2:]) for name, tensor in one.items()}
        for count in (num_tokens, 2)
    )
    starts = integers(num_tokens - 2, num_tokens - 1)(one["q"])  # Zeros follow.
    right, _ = fused_recurrent_gated_delta_rule(**last, cu_seqlens=starts - starts[0])
    found, _ = fused_recurrent_gated_delta_rule(**many, cu_seqlens=starts)
    expect_same(found[:, -2:], right)


@pytest.mark.parametrize("in_pool", [True, False], ids=["in a pool", "one a sequence"])
def test_tokens_and_states_of_the_chunked_rule(spread, numbers, in_pool):
    close, states = tokens(numbers, 3), numbers(3, 1, 16, 16)
    starts, slots = integers(0, 1, 2, 3)(states), integers(2, 0, 1)(states)
    rest = {"cu_seqlens": starts, "output_final_state": True}
    rest |= {"state_indices": slots} if in_pool else {}
    rest["chunk_indices"] = integers([0, 0], [1, 0], [2, 0])(states)
    rest["chunk_offsets"] = integers(0, 1, 2, 3)(states).long()
    right, after = chunk_gated_delta_rule(**close, **rest, initial_state=states.clone())
    apart = {name: spread(tensor, 1) for name, tensor in close.items()}
    found, left = chunk_gated_delta_rule(**apart, **rest, initial_state=spread(states))
    expect_same(found, right)
    expect_same(left.clone(), after)


@pytest.mark.parametrize("dimension", [0, 1], ids=["slots", "channels"])
def test_tokens_states_and_slots_of_the_convolution(spread, numbers, dimension):
    x, weight, states = numbers(3, 3), numbers(3, 4), numbers(3, 3, 3)
    slots, accepted = integers([2, 0], [0, 2], [1, 2])(states), integers(1, 1, 1)(states)
    args = {"weight": weight, "bias": None, "activation": "silu"}
    for given in (None, accepted):
        indices = slots[:, 0].contiguous() if given is None else slots
        after, apart = states.clone(), spread(states, dimension)
        rest = args | {"num_accepted_tokens": given}
        right = causal_conv1d_update(x, conv_states=after, state_indices=indices, **rest)
        found = causal_conv1d_update(
            spread(x), conv_states=apart, state_indices=spread(indices), **rest
        )
        expect_same(found, right)
        expect_same(apart.clone(), after)


def test_what_the_convolution_writes(numbers):
    num_tokens, dim = HALF // 2**14 + 2, 2**14
    x, states = numbers(1, dim), numbers(1, dim, 1)
    args = {"weight": numbers(dim, 2), "bias": None, "activation": None}
    args |= {"state_indices": integers(0)(x)}
    starts = integers(num_tokens - 2, num_tokens - 1)(x)  # Zeros follow.
    right = causal_conv1d_update(
        x.expand(2, dim), conv_states=states.clone(), query_start_loc=starts - starts[0], **args
    )
    found = causal_conv1d_update(
        x.expand(num_tokens, dim), conv_states=states.clone(), query_start_loc=starts, **args
    )
    expect_same(found[-2:], right)


def test_gates(spread, numbers):
    a, b, head = numbers(3, 2), numbers(3, 2), numbers(2)
    for found, right in zip(
        fused_gdn_gating(head, spread(a), spread(b), head),
        fused_gdn_gating(head, a, b, head),
        strict=True,
    ):
        expect_same(found, right)


def test_the_gated_norm(spread, numbers):
    x, z, weight = numbers(3, 2, 16), numbers(3, 2, 16), numbers(16)
    right = gated_rms_norm(x, z, weight, 1e-6)
    expect_same(gated_rms_norm(spread(x), spread(z), weight, 1e-6), right)


@pytest.mark.gpu
def test_states_between_chunks(accelerator):
    """The last of many sequences gives the same result as alone, although the states between all
    chunks take more than 2**31 numbers."""
    num_seqs, heads, size = 4100, 32, 128
    assert num_seqs * heads * size * size > HALF
    random = torch.Generator().manual_seed(3)
    numbers = lambda *shape: torch.randn(1, 64, heads, *shape, generator=random)
    one = {name: numbers(size).bfloat16() for name in ("q", "k", "v")}
    one |= {"g": -numbers().abs(), "beta": numbers().sigmoid()}
    one = {name: tensor.to(accelerator.device) for name, tensor in one.items()}
    many = {name: torch.cat([tensor] * num_seqs, 1) for name, tensor in one.items()}
    starts = torch.arange(num_seqs + 1, dtype=torch.int32).to(accelerator.device) * 64
    rest = {"use_qk_l2norm_in_kernel": True}
    right, _ = chunk_gated_delta_rule(**one, **rest)
    found, _ = chunk_gated_delta_rule(**many, **rest, cu_seqlens=starts)
    torch.testing.assert_close(found[:, -64:], right, rtol=2e-2, atol=2e-2)
