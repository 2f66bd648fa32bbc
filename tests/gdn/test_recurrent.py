"""The recurrence, compared with the definition in plain PyTorch, with the slots of a pool of
states."""

from dataclasses import dataclass, replace
from itertools import accumulate

import pytest
import torch

from solutions.gdn.rule.recurrent import fused_recurrent_gated_delta_rule
from tests.common import claims
from tests.common.refusals import changed, expect_refused

from .oracle import recurrence, relative_error
from .sequences import SHARED_SLOTS, SLOT_TABLE, integers

TOLERANCE = {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 5e-3}
NUM_SLOTS = 9


@dataclass(frozen=True)
class Tokens:
    """Random tokens of sequences of these lengths, as arguments of the op on the device, and a pool
    of random states."""

    lengths: list[int]
    args: dict[str, torch.Tensor]
    pool: torch.Tensor

    @classmethod
    def random(cls, accelerator, lengths, heads=(1, 2), sizes=(16, 16), dtype=torch.float32):
        generator = torch.Generator().manual_seed(3)
        (num_heads, num_value_heads), (key_size, value_size) = heads, sizes
        num_tokens = sum(lengths)

        def numbers(*shape, dtype=torch.float32):
            values = torch.randn(shape, generator=generator).to(dtype)
            return values.to(accelerator.device)

        args = {
            "q": numbers(1, num_tokens, num_heads, key_size, dtype=dtype),
            "k": numbers(1, num_tokens, num_heads, key_size, dtype=dtype),
            "v": numbers(1, num_tokens, num_value_heads, value_size, dtype=dtype),
            "g": -numbers(1, num_tokens, num_value_heads).abs(),
            "beta": numbers(1, num_tokens, num_value_heads).sigmoid(),
            "use_qk_l2norm_in_kernel": True,
        }
        return cls(list(lengths), args, numbers(NUM_SLOTS, num_value_heads, value_size, key_size))

    @property
    def starts(self):
        return [0, *accumulate(self.lengths)]

    def expected(self, states=None, **changes):
        """Returns the right (o, final states) of all sequences, from the initial `states` [N, HV,
        V, K]; `changes` are other arguments."""
        args = self.args | changes
        l2norm = args.pop("use_qk_l2norm_in_kernel")
        return recurrence(**args, initial_state=states, cu_seqlens=self.starts, l2norm=l2norm)


def run(accelerator, tokens, slots=None, accepted=None, with_starts=True, **changes):
    """Runs the op on a copy of the pool in `tokens`, and returns (o, that copy)."""
    return fused_recurrent_gated_delta_rule(
        **{"initial_state": tokens.pool.clone()} | tokens.args | changes,
        cu_seqlens=integers(accelerator.device, tokens.starts) if with_starts else None,
        ssm_state_indices=None if slots is None else integers(accelerator.device, slots),
        num_accepted_tokens=None if accepted is None else integers(accelerator.device, accepted),
    )


def expect_same(found, right, dtype=torch.float32):
    error = relative_error(found, right)
    assert error < TOLERANCE[dtype], f"relative error {error:.1e}"


def expect_right(accelerator, tokens, slots, dtype=torch.float32, **options):
    """Checks the op's outputs, the states in these slots, and that other slots are left alone.
    Returns the outputs."""
    o, pool = run(accelerator, tokens, slots, **options)
    right, states = tokens.expected(tokens.pool[slots])
    expect_same(o, right, dtype)
    expect_same(pool[slots], states)
    others = [n for n in range(NUM_SLOTS) if n not in slots]
    assert torch.equal(pool[others].cpu(), tokens.pool[others].cpu())
    return o


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("heads", [(1, 1), (1, 2), (2, 6)], ids=str)
def test_a_decode_step_is_one_step_of_the_definition(accelerator, heads, dtype):
    tokens = Tokens.random(accelerator, [1, 1, 1], heads, dtype=dtype)
    assert expect_right(accelerator, tokens, [4, 0, 7], dtype, with_starts=False).dtype == dtype


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_sequences_of_any_lengths(accelerator, dtype):
    tokens = Tokens.random(accelerator, [3, 0, 1, 6], dtype=dtype)
    expect_right(accelerator, tokens, [8, 2, 3, 5], dtype)


@pytest.mark.parametrize("sizes", [(16, 40), (24, 16), (128, 8), (1, 3)], ids=str)
def test_heads_of_any_size(accelerator, sizes):
    """Outputs and states are right if values are larger than one block, and if key sizes are no
    power of two."""
    tokens = Tokens.random(accelerator, [2, 1], sizes=sizes)
    expect_right(accelerator, tokens, [1, 0])


def test_a_sequence_without_tokens_leaves_its_slot_alone(accelerator):
    """A sequence without tokens doesn't change its slot's state, even if another sequence has the
    same slot."""
    tokens = Tokens.random(accelerator, [0, 2, 0, 0])
    _, pool = run(accelerator, tokens, slots=[5, 1, 6, 1])
    assert torch.equal(pool[[5, 6]].cpu(), tokens.pool[[5, 6]].cpu())
    expect_same(pool[[1]], tokens.expected(tokens.pool[[0, 1, 0, 0]])[1][[1]])


@pytest.mark.parametrize("slot", [-1, -7, NUM_SLOTS, 2**31 - 1])
def test_a_slot_out_of_range_gives_zeros_and_writes_nothing(accelerator, slot):
    tokens = Tokens.random(accelerator, [2, 1, 1])
    o, pool = run(accelerator, tokens, slots=[slot, 3, slot])
    right, states = tokens.expected(tokens.pool[[0, 3, 0]])
    assert not o[0, [0, 1, 3]].any()
    expect_same(o[:, 2:3], right[:, 2:3])
    expect_same(pool[3], states[1])
    others = [n for n in range(NUM_SLOTS) if n != 3]
    assert torch.equal(pool[others].cpu(), tokens.pool[others].cpu())


def test_without_a_pool_sequences_start_from_zeros(accelerator):
    tokens = Tokens.random(accelerator, [2, 3])
    starts = integers(accelerator.device, tokens.starts)
    o, pool = fused_recurrent_gated_delta_rule(**tokens.args, cu_seqlens=starts)
    assert pool is None
    expect_same(o, tokens.expected()[0])


def test_without_indices_the_slots_are_those_of_the_sequences_in_order(accelerator):
    tokens = Tokens.random(accelerator, [2, 3])
    o, pool = run(accelerator, tokens)
    right, states = tokens.expected(tokens.pool[:2])
    expect_same(o, right)
    expect_same(pool[:2], states)


def test_the_pool_is_changed_in_place(accelerator):
    tokens = Tokens.random(accelerator, [1])
    pool = tokens.pool.clone()
    slots = integers(accelerator.device, [2])
    _, returned = fused_recurrent_gated_delta_rule(
        **tokens.args, initial_state=pool, ssm_state_indices=slots
    )
    assert returned is pool
    expect_same(pool[[2]], tokens.expected(tokens.pool[[2]])[1])


@pytest.mark.parametrize("scale", [3.0, 0.0])
@pytest.mark.parametrize("l2norm", [True, False])
def test_scale_and_normalisation_are_the_callers_choice(accelerator, l2norm, scale):
    """A scale of 0 is 0, and stands for no default (FlashInfer #3165)."""
    tokens = Tokens.random(accelerator, [2])
    tokens.args["k"].mul_(0.2)  # otherwise the states grow without bound
    changes = {"scale": scale, "use_qk_l2norm_in_kernel": l2norm}
    o, _ = run(accelerator, tokens, slots=[0], **changes)
    expect_same(o, tokens.expected(tokens.pool[[0]], **changes)[0])


@pytest.mark.parametrize("accepted", [[1, 1], [1, 3], [3, 2]], ids=str)
def test_each_drafted_token_leaves_its_state_in_a_slot_of_its_own(accelerator, accepted):
    tokens = Tokens.random(accelerator, [3, 2])
    o, pool = run(accelerator, tokens, SLOT_TABLE, accepted)
    for n, (first, length) in enumerate([(0, 3), (3, 2)]):
        slots = SLOT_TABLE[n]
        state = tokens.pool[[slots[accepted[n] - 1]]]
        for token in range(length):
            part = {
                name: value[:, first + token : first + token + 1]
                for name, value in tokens.args.items()
                if isinstance(value, torch.Tensor)
            }
            right, state = recurrence(**part, initial_state=state, l2norm=True)
            expect_same(o[:, first + token], right[:, 0])
            expect_same(pool[[slots[token]]], state)
    unwritten = [2, 3, 5, 6]  # Slot 3 belongs to a token that the second sequence doesn't have.
    assert torch.equal(pool[unwritten].cpu(), tokens.pool[unwritten].cpu())


@pytest.mark.parametrize("accepted", [0, 4, -3])
def test_a_number_of_accepted_tokens_without_a_column_touches_nothing(accelerator, accepted):
    tokens = Tokens.random(accelerator, [3, 2])
    o, pool = run(accelerator, tokens, SLOT_TABLE, [1, accepted])
    assert not o[:, 3:].any()
    assert torch.equal(pool[SLOT_TABLE[1]].cpu(), tokens.pool[SLOT_TABLE[1]].cpu())


def test_drafts_without_a_slot_are_computed_and_not_kept(accelerator):
    """Draft tokens without a slot have right outputs, but their states are not stored: one draft's
    slot is a pad, and one is past the end of the row of slots."""
    tokens = Tokens.random(accelerator, [4])
    o, pool = run(accelerator, tokens, [[4, -1, 7]], [1])
    right, _ = tokens.expected(tokens.pool[[4]])
    expect_same(o, right)
    others = [n for n in range(NUM_SLOTS) if n not in (4, 7)]
    assert torch.equal(pool[others].cpu(), tokens.pool[others].cpu())


def test_a_draft_whose_slot_lies_behind_the_pool_is_computed_and_not_kept(accelerator):
    tokens = Tokens.random(accelerator, [3])
    whole = tokens.pool.clone()
    o, _ = run(accelerator, tokens, [[4, 7, 1]], [1], initial_state=whole[:7])
    expect_same(o, tokens.expected(tokens.pool[[4]])[0])
    assert torch.equal(whole[7:].cpu(), tokens.pool[7:].cpu())


@pytest.mark.sim
@pytest.mark.parametrize(("lengths", "slots", "accepted"), SHARED_SLOTS.values(), ids=SHARED_SLOTS)
def test_a_slot_of_two_sequences_is_seen(accelerator, lengths, slots, accepted):
    """Two sequences that write to one slot raise RuntimeError on sim. A GPU doesn't detect it: one
    of the two sequences writes last."""
    with pytest.raises(RuntimeError, match="two sequences with tokens have one slot: give each"):
        run(accelerator, Tokens.random(accelerator, lengths), slots, accepted)


def test_slots_that_no_token_writes_may_be_shared(accelerator):
    """Two sequences may have the same slot if no token writes to it: no tokens, no drafts, or a
    slot of -1."""
    run(accelerator, Tokens.random(accelerator, [0, 2, 1, 1]), [0, 0, -1, -1])
    run(accelerator, Tokens.random(accelerator, [1, 1]), [[0, 3], [1, 3]], [1, 1])


def test_tokens_behind_the_last_sequence_give_zeros(accelerator):
    """Outputs are zero for tokens after the last sequence, as a batch has that is padded for a
    graph, even if they are NaN."""
    tokens = Tokens.random(accelerator, [2, 1])
    padded = {
        name: torch.cat([value, torch.full_like(value, torch.nan)], 1)
        for name, value in tokens.args.items()
        if isinstance(value, torch.Tensor)
    }
    o, pool = run(accelerator, tokens, [0, 1], **padded)
    right, states = tokens.expected(tokens.pool[:2])
    expect_same(o[:, :3], right)
    assert not o[:, 3:].any()
    expect_same(pool[:2], states)


@pytest.mark.parametrize("length", [4, 5000, 2**30])
def test_a_sequence_that_goes_on_behind_the_last_token_ends_there(accelerator, length):
    """A last sequence whose end lies beyond the tokens is computed as if it ended at the last
    token. The host can't check starts that are on the device."""
    tokens = Tokens.random(accelerator, [2, 3])
    o, pool = run(accelerator, replace(tokens, lengths=[2, length]), [4, 0])
    right, states = tokens.expected(tokens.pool[[4, 0]])
    expect_same(o, right)
    expect_same(pool[[4, 0]], states)


def test_a_sequence_that_begins_behind_the_last_token_has_none(accelerator):
    tokens = Tokens.random(accelerator, [5])
    o, pool = run(accelerator, replace(tokens, lengths=[5, 95, 4]), [4, 0, 1])
    right, states = tokens.expected(tokens.pool[[4]])
    expect_same(o, right)
    expect_same(pool[[4]], states)
    assert torch.equal(pool[:4].cpu(), tokens.pool[:4].cpu())


def test_an_empty_batch_is_nothing(accelerator):
    tokens = Tokens.random(accelerator, [])
    for options in ({"with_starts": False}, {}):
        o, pool = run(accelerator, tokens, slots=[], **options)
        assert o.shape == (1, 0, 2, 16)
        assert torch.equal(pool.cpu(), tokens.pool.cpu())
    tokens = Tokens.random(accelerator, [0, 0])
    _, pool = run(accelerator, tokens, slots=[1, 2])
    assert torch.equal(pool.cpu(), tokens.pool.cpu())


def test_parts_of_a_wider_projection_and_a_pool_with_gaps(accelerator):
    tokens = Tokens.random(accelerator, [2, 1], heads=(2, 4))
    names = ("q", "k", "v")
    wide = torch.cat([tokens.args[name].flatten(2) for name in names], 2)
    parts = wide.split([tokens.args[name][0, 0].numel() for name in names], 2)
    gates = torch.cat([tokens.args["g"], tokens.args["beta"]], 2)
    args = {
        name: part.unflatten(2, tokens.args[name].shape[2:])
        for name, part in zip(names, parts, strict=True)
    } | {"g": gates[..., :4], "beta": gates[..., 4:]}
    assert not args["k"].is_contiguous()
    pool = torch.full((NUM_SLOTS, 5, 16, 16), torch.nan).to(accelerator.device)
    pool[:, :4] = tokens.pool
    o, _ = fused_recurrent_gated_delta_rule(
        **tokens.args | args,
        initial_state=pool[:, :4],
        cu_seqlens=integers(accelerator.device, tokens.starts),
        ssm_state_indices=integers(accelerator.device, [6, 1]),
    )
    right, states = tokens.expected(tokens.pool[[6, 1]])
    expect_same(o, right)
    expect_same(pool[[6, 1], :4], states)
    assert pool[:, 4].isnan().all()


def test_nan_stays_in_its_sequence_and_is_seen_there(accelerator):
    tokens = Tokens.random(accelerator, [2, 2, 1])
    for name in ("q", "k", "v", "g", "beta"):
        broken = tokens.args[name].clone()
        broken[0, 2] = torch.nan
        o, pool = run(accelerator, tokens, [0, 1, 2], **{name: broken})
        right, states = tokens.expected(tokens.pool[:3])
        assert o[:, 2].isnan().all()
        assert pool[1].isnan().all() == (name != "q")
        expect_same(o[:, [0, 1, 4]], right[:, [0, 1, 4]])
        expect_same(pool[[0, 2]], states[[0, 2]])


def test_many_sequences(accelerator):
    """Outputs and states of many sequences are right: on a GPU, more states than a grid can have
    programs in any dimension but its first."""
    count = 12 if accelerator.modelled else 40_000  # interpreted, a program takes milliseconds
    tokens = Tokens.random(accelerator, [1] * count, heads=(1, 2))
    pool = torch.randn(count, 2, 16, 16).to(accelerator.device)
    slots = torch.randperm(count)
    right, states = tokens.expected(pool.cpu()[slots])
    rows = integers(accelerator.device, slots.tolist())
    o, _ = fused_recurrent_gated_delta_rule(
        **tokens.args, initial_state=pool, ssm_state_indices=rows
    )
    expect_same(o, right)
    expect_same(pool.cpu()[slots], states)


@pytest.mark.parametrize("count", [2_048, 65_536])
def test_as_many_sequences_as_a_server_has_are_one_launch(accelerator, only_launched, count):
    """Sequences and heads together are more than a grid takes in any dimension but its first (FLA
    #1077)."""
    tokens = Tokens.random(accelerator, [1] * count, heads=(1, 64), sizes=(1, 1))
    o, _ = fused_recurrent_gated_delta_rule(**tokens.args)
    assert o.shape == (1, count, 64, 1)


@pytest.mark.parametrize("gates", [(0.0, -torch.inf), (-torch.inf, 0.0)], ids=str)
def test_to_keep_all_and_to_forget_all_may_be_in_one_batch(accelerator, gates):
    """Gates of 0 and of -inf side by side, in one sequence and in neighbours (FLA #924)."""
    tokens = Tokens.random(accelerator, [3, 4])
    tokens.args["g"].copy_(torch.tensor(gates * 7).view(1, 7, 2).to(accelerator.device))
    tokens.args["g"][:, 3:] = tokens.args["g"][:, 3:].flip(2)
    expect_right(accelerator, tokens, [4, 2])


def test_what_a_call_returns_is_no_later_call_s(accelerator):
    """Dtypes may alternate in one process, and outputs of two calls share no memory (FlashInfer
    #4219)."""
    returned = []
    for dtype in (torch.bfloat16, torch.float32, torch.float16, torch.bfloat16):
        tokens = Tokens.random(accelerator, [2, 1], dtype=dtype)
        o, _ = run(accelerator, tokens, [0, 1])
        returned.append((o, o.clone()))
        assert o.dtype == dtype, "an output of another call's dtype"
        expect_same(o, tokens.expected(tokens.pool[:2])[0], dtype)
    assert len({o.data_ptr() for o, _ in returned}) == 4, "two calls share an output"
    assert all(torch.equal(o.cpu(), then.cpu()) for o, then in returned)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_heads_as_large_as_a_models(accelerator, dtype):
    tokens = Tokens.random(accelerator, [1, 5, 0, 3], (16, 32), (128, 128), dtype)
    expect_right(accelerator, tokens, [3, 1, 0, 8], dtype)


def test_one_launch_and_nobody_waits(accelerator):
    tokens = Tokens.random(accelerator, [1, 1])
    pool, slots = tokens.pool.clone(), integers(accelerator.device, [3, 1])
    table, accepted = integers(accelerator.device, SLOT_TABLE), integers(accelerator.device, [1, 2])
    starts = integers(accelerator.device, [0, 1, 2])
    for options in (
        {"ssm_state_indices": slots},
        {"ssm_state_indices": table, "num_accepted_tokens": accepted, "cu_seqlens": starts},
    ):
        call = lambda options=options: fused_recurrent_gated_delta_rule(
            **tokens.args, initial_state=pool, **options
        )
        assert claims.expect_no_wait(accelerator, call, 0)["kernels"] == 1


def test_a_captured_step_is_replayed_with_other_sequences(accelerator):
    """A captured step gives right outputs and states when it is replayed with other slots and
    starts, which are read on the device."""
    tokens = Tokens.random(accelerator, [2, 1])
    pool = tokens.pool.clone()
    starts, slots = integers(accelerator.device, [0, 3, 3]), integers(accelerator.device, [5, -1])
    step = lambda: fused_recurrent_gated_delta_rule(
        **tokens.args, initial_state=pool, cu_seqlens=starts, ssm_state_indices=slots
    )
    graph, (o, _) = claims.captured(accelerator, step)
    pool.copy_(tokens.pool)
    starts.copy_(integers(accelerator.device, tokens.starts))
    slots.copy_(integers(accelerator.device, [3, 0]))
    graph.replay()
    right, states = tokens.expected(tokens.pool[[3, 0]])
    expect_same(o, right)
    expect_same(pool[[3, 0]], states)


def test_overlapped_steps_each_go_on_from_the_last_state(accelerator):
    steps = claims.OVERLAPPED_CALLS
    tokens = Tokens.random(accelerator, [steps], heads=(1, 1))
    pool, slots = tokens.pool.clone(), integers(accelerator.device, [2])
    inputs = [
        {
            name: value[:, n : n + 1].clone() if isinstance(value, torch.Tensor) else value
            for name, value in tokens.args.items()
        }
        for n in range(steps)
    ]
    call = lambda args: fused_recurrent_gated_delta_rule(
        **args, initial_state=pool, ssm_state_indices=slots
    )[0]
    results = claims.overlapped(accelerator, call, inputs, warm_up=False)
    right, states = tokens.expected(tokens.pool[[2]])
    expect_same(torch.cat(results, 1), right)
    expect_same(pool[[2]], states)


BAD_ARGUMENTS = {
    r"q of shape \[1, 4, 2, 16\] and k of \[1, 4, 2, 8\]": {"k": lambda x: x[..., :8]},
    r"q of shape \[4, 2, 16\]": {"q": lambda x: x[0], "k": lambda x: x[0]},
    r"v of shape \[1, 3, 4, 16\]: make it \[1, 4, HV, V\]": {"v": lambda x: x[:, :3]},
    "a multiple of 2 key heads": {"v": lambda x: x[:, :, :3]},
    "q, k and v of torch.float32, torch.float16": {"k": lambda x: x.half()},
    "q, k and v of torch.float64": dict.fromkeys("qkv", lambda x: x.double()),
    "keys of size 512: this kernel holds 1 to 256": dict.fromkeys(
        "qk", lambda x: x.repeat(1, 1, 1, 32)
    ),
    r"g is torch.bfloat16 \[1, 4, 4\]: make it \[1, 4, 4\], torch.float32": {
        "g": lambda x: x.bfloat16()
    },
    r"beta is torch.float32 \[1, 4, 2\]": {"beta": lambda x: x[..., :2]},
    "v of strides": {"v": lambda x: x.transpose(2, 3).contiguous().transpose(2, 3)},
    r"cu_seqlens is torch.int64 \[3\]: for 2 sequences": {"cu_seqlens": lambda x: x.long()},
    "cu_seqlens is empty: give where each sequence starts": {
        "cu_seqlens": lambda x: x[:0],
        "ssm_state_indices": lambda x: x[:0],
        "num_accepted_tokens": lambda x: x[:0],
    },
    r"num_accepted_tokens is torch.int32 \[1\]": {"num_accepted_tokens": lambda x: x[:1]},
    r"ssm_state_indices is torch.int32 \[2, 3\]: make it torch.int32 \[2\]": {
        "num_accepted_tokens": None
    },
    r"ssm_state_indices is torch.int32 \[2\]: make it torch.int32 \[2, 1 \+ drafts\]": (
        {"ssm_state_indices": lambda x: x[:, 0]}
    ),
    "ssm_state_indices is torch.int64": {"ssm_state_indices": lambda x: x.long()},
    "the slots of a sequence must be contiguous": {
        "ssm_state_indices": lambda x: x.T.contiguous().T
    },
    "num_accepted_tokens without ssm_state_indices": {"ssm_state_indices": None},
    "slots of initial_state, which is None": {"initial_state": None},
    r"initial_state is torch.bfloat16 \[9, 4, 16, 16\]: make it torch.float32": {
        "initial_state": lambda x: x.bfloat16()
    },
    r"make it torch.float32 \[num_slots, 4, 16, 16\]": {"initial_state": lambda x: x[:, :2]},
    "each slot must be contiguous": {"initial_state": lambda x: x.transpose(2, 3)},
    "1 states for 2 sequences": {
        "initial_state": lambda x: x[:1],
        "ssm_state_indices": None,
        "num_accepted_tokens": None,
    },
}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    tokens = Tokens.random(accelerator, [3, 1], heads=(2, 4))
    args = tokens.args | {
        "initial_state": tokens.pool,
        "cu_seqlens": integers(accelerator.device, tokens.starts),
        "ssm_state_indices": integers(accelerator.device, SLOT_TABLE),
        "num_accepted_tokens": integers(accelerator.device, [1, 1]),
    }
    bad = changed(args, BAD_ARGUMENTS[message])
    call = lambda: fused_recurrent_gated_delta_rule(**bad)
    expect_refused(accelerator, call, message, unchanged=(tokens.pool,))
