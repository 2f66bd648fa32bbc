"""The chunked rule compared with the definition, token by token, on any batch."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from solutions.gdn.rule.recurrent import fused_recurrent_gated_delta_rule

from .batches import TABLES
from .chunk_rule import MODEL, expect_right, run
from .oracle import relative_error
from .sequences import AROUND_A_CHUNK, TOLERANCE, Sequences, expect_close

C = 64


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_lengths_around_a_chunk(accelerator, dtype):
    sequences = Sequences.random(accelerator, [*AROUND_A_CHUNK, 129], dtype=dtype)
    expect_right(sequences, states=sequences.states(), dtype=dtype)


GRID = [
    *((num_seqs, MODEL["heads"], dtype) for num_seqs, dtype in product([1, 5], TOLERANCE)),
    (257, (2, 4), torch.bfloat16),
]
"""The (number of sequences, heads, dtype) of the grid's cases. 257 sequences have half the heads,
since their states are compared in float64."""


@pytest.mark.gpu
@pytest.mark.parametrize("l2norm", [False, True], ids=["normalised before", "in the kernel"])
@pytest.mark.parametrize("state_dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("num_seqs", "heads", "dtype"), GRID, ids=str)
def test_heads_as_large_as_a_models(accelerator, num_seqs, heads, dtype, state_dtype, l2norm):
    lengths = np.random.default_rng(num_seqs).integers(1, 130, num_seqs)
    sequences = Sequences.random(
        accelerator, lengths, heads, MODEL["sizes"], dtype, normalized=not l2norm
    )
    states = sequences.states(dtype=state_dtype)
    expect_right(sequences, "host", states, dtype, use_qk_l2norm_in_kernel=l2norm)


@pytest.mark.gpu
@pytest.mark.parametrize("lengths", [[8192], [1024, 7168], [64] * 128, [1] * 7 + [8185]], ids=len)
def test_the_batches_that_are_measured(accelerator, lengths):
    """The batches of the benchmark, with 8192 tokens, are right. The test uses two value heads of
    the model's size, since the recurrence takes a step for each token."""
    sequences = Sequences.random(accelerator, lengths, (1, 2), (128, 128), torch.bfloat16)
    right, right_states = sequences.expected()
    for made_on in TABLES:
        o, final = run(sequences, made_on)
        expect_close(o, right, torch.bfloat16)
        expect_close(final, right_states, torch.bfloat16)


@pytest.mark.parametrize("made_on", TABLES)
def test_tables_from_anywhere(accelerator, made_on):
    sequences = Sequences.random(accelerator, [1, 0, 66], heads=(1, 1))
    expect_right(sequences, made_on, sequences.states())
    expect_right(sequences, made_on)


@pytest.mark.parametrize("heads", [(1, 1), (1, 3), (2, 4), (3, 3)], ids=str)
def test_any_number_of_heads(accelerator, heads):
    sequences = Sequences.random(accelerator, [2, 66], heads)
    expect_right(sequences, states=sequences.states())


@pytest.mark.parametrize("sizes", [(16, 16), (32, 16), (64, 128), (128, 64)], ids=str)
def test_heads_of_any_size(accelerator, sizes):
    sequences = Sequences.random(accelerator, [2, 66], (1, 1), sizes)
    expect_right(sequences, states=sequences.states())


@pytest.mark.parametrize("lengths", [[0], [0, 0], [1], [C - 1], [C], [C + 1], [0, 1, 0]], ids=str)
def test_trap_7_the_smallest_batches(accelerator, lengths):
    """Batches of no, one and about one chunk's tokens are right; the final state of a sequence
    without tokens is its initial state."""
    sequences = Sequences.random(accelerator, lengths, heads=(1, 1))
    for made_on in TABLES:
        expect_right(sequences, made_on, sequences.states())
        expect_right(sequences, made_on)


@pytest.mark.parametrize("made_on", TABLES)
def test_trap_7_no_sequences_at_all(accelerator, made_on):
    sequences = Sequences.random(accelerator, [])
    o, final = run(sequences, made_on, initial_state=sequences.states())
    assert o.shape == (1, 0, 2, 32)
    assert final.shape == (0, 2, 32, 16)


def test_without_starts_there_is_one_sequence(accelerator):
    sequences = Sequences.random(accelerator, [70])
    expect_right(sequences, None, sequences.states())
    o, final = chunk_gated_delta_rule(**sequences.args)
    assert final is None
    expect_close(o, sequences.expected()[0], torch.float32)


@pytest.mark.parametrize("scale", [3.0, 0.0])
@pytest.mark.parametrize("l2norm", [False, True])
def test_scale_and_normalisation_are_the_callers_choice(accelerator, l2norm, scale):
    """A scale of 0 is 0, and stands for no default (FlashInfer #3165)."""
    sequences = Sequences.random(accelerator, [3, 66], normalized=not l2norm)
    options = {"scale": scale, "use_qk_l2norm_in_kernel": l2norm}
    expect_right(sequences, states=sequences.states(), **options)


@pytest.mark.parametrize(("count", "heads"), [(2_048, 32), (65_536, 1)])
def test_as_many_sequences_as_a_server_has_are_launched(accelerator, only_launched, count, heads):
    """Sequences and heads together are more than a grid takes in any dimension but its first (FLA
    #1077)."""
    sequences = Sequences.random(accelerator, [1] * count, (1, heads), (16, 16))
    o, final = run(sequences)
    assert (o.shape, len(final)) == ((1, count, heads, 16), count)


def test_each_chunk_decays_by_its_own_gates(accelerator):
    """Full chunks, a chunk filled in part and a recurrent step each decay by the gates of their own
    tokens, up to the last of them (FlashInfer #4311)."""
    sequences = Sequences.random(accelerator, [2 * C, C + 6, 3])
    token = torch.cat([torch.arange(length) for length in sequences.lengths])
    mild = -0.01 * (1 + token // C) * (1 + token % 3)
    sequences.g.copy_(mild[None, :, None].expand_as(sequences.g))
    o, final = run(sequences, initial_state=sequences.states())
    right, states = sequences.expected(sequences.states())
    expect_close(o, right, torch.float32)
    expect_close(final, states, torch.float32)
    more = Sequences.random(accelerator, [1, 1, 1], seed=8)
    next_o, _ = fused_recurrent_gated_delta_rule(
        **more.args, initial_state=final, cu_seqlens=more.cu_seqlens
    )
    expect_close(next_o, more.expected(states)[0], torch.float32)


@pytest.mark.parametrize("gates", [(0.0, -torch.inf), (-torch.inf, 0.0)], ids=str)
def test_to_keep_all_and_to_forget_all_may_be_in_one_batch(accelerator, gates):
    """Gates of 0 and of -inf side by side, in one chunk and in neighbours (FLA #924)."""
    sequences = Sequences.random(accelerator, [C + 2, 3])
    sequences.g.copy_(torch.tensor(gates, device=accelerator.device).expand_as(sequences.g))
    sequences.g[:, C // 2 :] = sequences.g[:, C // 2 :].flip(2)
    expect_right(sequences, states=sequences.states())


def test_what_a_call_returns_is_no_later_call_s(accelerator):
    """Dtypes may alternate in one process, and outputs of two calls share no memory (FlashInfer
    #4219)."""
    returned = []
    for dtype in (torch.bfloat16, torch.float32, torch.float16, torch.bfloat16):
        sequences = Sequences.random(accelerator, [3, 2], dtype=dtype)
        for made in run(sequences, initial_state=sequences.states()):
            returned.append((made, made.clone()))
        o, _ = returned[-2]
        assert o.dtype == dtype, "an output of another call's dtype"
        expect_close(o, sequences.expected(sequences.states())[0], dtype)
    assert len({made.data_ptr() for made, _ in returned}) == 8, "two calls share an output"
    assert all(torch.equal(made.cpu(), then.cpu()) for made, then in returned)


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_parts_of_a_projection_of_more_tokens(accelerator, dtype, offset):
    """Inputs that are parts of a larger projection give the same numbers as contiguous ones. The
    prefills of a batch are such parts, after `offset` decodes."""
    sequences = Sequences.random(accelerator, [3, 5], dtype=dtype)
    parts = sequences.in_one_projection(offset)
    assert not parts.q.is_contiguous()
    o, final = run(parts)
    same, same_final = run(sequences)
    assert torch.equal(o.cpu(), same.cpu())
    assert torch.equal(final.cpu(), same_final.cpu())


STRONG = {
    "the first": slice(0, 1),
    "one inside": slice(33, 34),
    "some in each chunk": slice(2, 90, 7),
    "most of a chunk": slice(64, 112),
    "all": slice(None),
}


@pytest.mark.deep(3)
@pytest.mark.parametrize("gate", [-90.0, -1e3, -1e6, -torch.inf])
@pytest.mark.parametrize("strong", STRONG.values(), ids=STRONG)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_gate_that_forgets_everything(accelerator, dtype, strong, gate):
    """Outputs are right if some gates are so negative that they forget everything: the ordinary
    gates after them keep the precision of half types."""
    sequences = Sequences.random(accelerator, [130, 3, 66], heads=(1, 1), dtype=dtype)
    sequences.g[:, strong] = torch.full_like(sequences.g[:, strong], gate)
    o, final = run(sequences, initial_state=sequences.states())
    right, right_states = sequences.expected(sequences.states())
    expect_close(o, right, torch.bfloat16)
    expect_close(final, right_states, torch.bfloat16)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_identical_keys_that_replace_all_there_is(accelerator, dtype):
    """The error is at most 8 times the usual tolerance if all keys are equal: each token then
    removes what the token before it wrote, and rounding leaves some of it."""
    sequences = Sequences.random(accelerator, [129], heads=(1, 1), dtype=dtype)
    same = replace(
        sequences,
        k=sequences.k[:, :1].expand_as(sequences.k).contiguous(),
        beta=torch.ones_like(sequences.beta),
        g=torch.zeros_like(sequences.g),
    )
    o, final = run(same)
    right, right_states = same.expected()
    assert relative_error(o, right) < 8 * TOLERANCE[dtype]
    expect_close(final, right_states, torch.bfloat16)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_keys_longer_than_one(accelerator, dtype):
    sequences = Sequences.random(accelerator, [129], heads=(1, 1), sizes=(128, 16), dtype=dtype)
    long = replace(sequences, k=2 * sequences.k)
    expect_right(long, states=long.states(), dtype=dtype)


BROKEN = slice(3, 4)
"""The row of the broken token: the second token of the second sequence, which has one more chunk
after it."""


@pytest.mark.parametrize("name", ["q", "k", "v", "g", "beta", "initial_state"])
def test_nan_stays_in_its_sequence_and_is_seen_there(accelerator, name):
    sequences = Sequences.random(accelerator, [2, 66, 1], heads=(1, 1))
    states, broken_states, broken = sequences.states(), sequences.states(), sequences
    if name == "initial_state":
        broken_states[1] = torch.full_like(broken_states[1], torch.nan)
    else:
        values = getattr(sequences, name).clone()
        values[:, BROKEN] = torch.full_like(values[:, BROKEN], torch.nan)
        broken = replace(sequences, **{name: values})
    clean_o, clean_final = run(sequences, initial_state=states)
    o, final = run(broken, initial_state=broken_states)
    assert o[:, BROKEN].isnan().all()
    assert o[:, BROKEN.stop : 68].isnan().all() == (name != "q")
    assert final[1].isnan().all() == (name != "q")
    others = torch.tensor([0, 1, 68])
    assert torch.equal(o.cpu()[:, others], clean_o.cpu()[:, others])
    assert torch.equal(final.cpu()[[0, 2]], clean_final.cpu()[[0, 2]])


def test_sequences_know_nothing_of_one_another(accelerator):
    """A sequence's outputs and final state are exactly the same if the sequences are in a different
    order."""
    sequences = Sequences.random(accelerator, [1, 66, 0, 64, 5], heads=(1, 1))
    order = [3, 0, 4, 2, 1]
    states, other = sequences.states(), sequences.in_order(order)
    o, final = run(sequences, initial_state=states)
    other_o, other_final = run(other, initial_state=states[order])
    for place, n in enumerate(order):
        assert torch.equal(other_o.cpu()[:, other.rows(place)], o.cpu()[:, sequences.rows(n)])
        assert torch.equal(other_final[place].cpu(), final[n].cpu())


def test_a_sequence_in_parts_is_the_whole(accelerator):
    whole = Sequences.random(accelerator, [150])
    o, final = run(whole, initial_state=whole.states())
    state, outputs = whole.states(), []
    for first, end in ((0, 1), (1, 70), (70, 150)):
        tokens = {name: value[:, first:end] for name, value in whole.args.items()}
        part, state = run(replace(whole, lengths=[end - first], **tokens), initial_state=state)
        outputs.append(part)
    expect_close(torch.cat(outputs, 1), o.cpu(), torch.float32)
    expect_close(state, final.cpu(), torch.float32)


GATES = (0.0, -1e-6, -0.1, -1.0, -5.0, -20.0, -50.0, -88.0, -103.0, -104.0, -105.0, -1e3, -1e6,
         -1e30, -torch.inf)  # fmt: skip
KINDS = {
    "any of them": lambda one, share: one,
    "ordinary ones among them": lambda one, share: torch.where(share < 0.9, -0.05 * share, one),
    "few among nothing to forget": lambda one, share: torch.where(share < 0.97, 0.0, one),
    "halving and more": lambda one, share: -3.0 * share,
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.deep) for n in (1, 2, 3))])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_gates_of_any_size_in_any_order(accelerator, dtype, kind, seed):
    """Outputs are right for random gates of very different sizes in any order, compared with the
    recurrence in float64 on the same rounded inputs."""
    sequences = Sequences.random(accelerator, [70, 1, 19], heads=(1, 1), dtype=dtype)
    random = torch.Generator().manual_seed(seed)
    shape = sequences.g.shape
    one = torch.tensor(GATES)[torch.randint(len(GATES), shape, generator=random)]
    sequences.g.copy_(kind(one, torch.rand(shape, generator=random)))
    o, final = run(sequences, initial_state=sequences.states())
    right, right_states = sequences.expected(sequences.states())
    expect_close(o, right, torch.bfloat16)
    expect_close(final, right_states, torch.bfloat16)
