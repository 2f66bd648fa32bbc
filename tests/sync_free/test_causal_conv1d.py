"""causal_conv1d_fn, after and before the change, compared with loops in NumPy."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.sync_free.before import causal_conv1d as before
from solutions.sync_free.kernels.causal_conv1d import BLOCK_DIM
from solutions.sync_free.model.conv_chunks import CHUNK_TOKENS, PAD_SLOT, prepare_conv_metadata
from solutions.sync_free.sites import causal_conv1d
from tests.common import claims
from tests.common.refusals import changed, expect_refused

BOTH = pytest.mark.parametrize("module", [causal_conv1d, before], ids=["ours", "before"])
DIM = 5
LARGE = 4096


@dataclass(frozen=True)
class Batch:
    """A batch of sequences with random inputs and states for the convolution, on the host."""

    lengths: list[int]
    slots: list[int]
    has_state: list[bool]
    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None
    conv_states: np.ndarray
    activation: str | None

    @classmethod
    def random(
        cls, lengths, slots=None, has_state=None, width=4, dim=DIM, bias=True, activation="silu"
    ):
        random = np.random.default_rng(11)
        numbers = lambda *shape: random.standard_normal(shape, dtype=np.float32)
        num_seqs = len(lengths)
        return cls(
            list(lengths),
            list(reversed(range(num_seqs))) if slots is None else list(slots),
            [True] * num_seqs if has_state is None else list(has_state),
            numbers(sum(lengths), dim),
            numbers(dim, width),
            numbers(dim) if bias else None,
            numbers(num_seqs + 2, dim, width - 1),
            activation,
        )

    @property
    def starts(self):
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)

    def step(self, token, has_state=True):
        """Returns token `token` of the only sequence as a batch of its own, a decode step."""
        return replace(self, lengths=[1], has_state=[has_state], x=self.x[token : token + 1])

    def expected(self):
        """Returns the right (output, conv_states), computed sequence by sequence, token by token,
        tap by tap."""
        output, conv_states = np.zeros_like(self.x), self.conv_states.copy()
        dim, width = self.weight.shape
        sequences = zip(self.starts, self.lengths, self.slots, self.has_state, strict=False)
        for start, length, slot, has_state in sequences:
            if slot == PAD_SLOT or length == 0:
                continue
            old = self.conv_states[slot] if has_state else np.zeros((dim, width - 1), np.float32)
            inputs = np.concatenate([old.T, self.x[start : start + length]])
            for token in range(length):
                result = np.zeros(dim, np.float32) if self.bias is None else self.bias.copy()
                for tap in range(width):
                    result += inputs[token + tap] * self.weight[:, tap]
                if self.activation == "silu":
                    result = result / (1 + np.exp(-result))
                output[start + token] = result
            conv_states[slot] = inputs[len(inputs) - (width - 1) :].T
        return output, conv_states

    def on(self, accelerator, dtype=torch.float32):
        """Returns the arguments of causal_conv1d_fn on this device, by name, without the
        metadata."""

        def send(array):
            sent = None if array is None else torch.from_numpy(array).to(accelerator.device)
            return sent.to(dtype) if sent is not None and sent.is_floating_point() else sent

        return {
            "x": send(self.x),
            "weight": send(self.weight),
            "bias": send(self.bias),
            "conv_states": send(self.conv_states.copy()),
            "query_start_loc": send(self.starts),
            "cache_indices": send(np.array(self.slots, np.int32)),
            "has_initial_state": send(np.array(self.has_state, bool)),
            "activation": self.activation,
        }

    def metadata(self, accelerator):
        slots = torch.tensor(self.slots, dtype=torch.int32)
        return prepare_conv_metadata(self.starts, accelerator.device, slots)


def expect_convolved(accelerator, module, batch, args=None, tolerance=1e-5):
    args = args or batch.on(accelerator)
    output = module.causal_conv1d_fn(**args, metadata=batch.metadata(accelerator))
    assert output.dtype == args["x"].dtype
    expect_close((output, args["conv_states"]), batch.expected(), tolerance)


def expect_close(found, right, tolerance=1e-5):
    """Checks (output, conv_states) on the device against the expected NumPy arrays."""
    for tensor, array in zip(found, right, strict=True):
        in_float32 = tensor.cpu().float().numpy()
        np.testing.assert_allclose(in_float32, array, rtol=tolerance, atol=tolerance)


@st.composite
def batches(draw):
    lengths = draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 9, 17]), min_size=1, max_size=4))
    slots = draw(st.permutations(range(len(lengths) + 2)))[: len(lengths)]
    pads = draw(st.sets(st.integers(0, len(lengths) - 1), max_size=1))
    return Batch.random(
        lengths,
        [PAD_SLOT if sequence in pads else slot for sequence, slot in enumerate(slots)],
        draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths))),
        width=draw(st.integers(2, 4)),
        bias=draw(st.booleans()),
        activation=draw(st.sampled_from([None, "silu"])),
    )


@given(batch=batches())
@settings(max_examples=25)
def test_every_sequence_is_convolved_and_leaves_its_state(accelerator, batch):
    expect_convolved(accelerator, causal_conv1d, batch)


@BOTH
def test_a_ragged_batch(accelerator, module):
    batch = Batch.random([3, 0, 1, 20, 2, 8, 9], slots=[4, 7, 0, 8, PAD_SLOT, 2, 5])
    expect_convolved(accelerator, module, batch)


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("length", [1, 2, 3, CHUNK_TOKENS, CHUNK_TOKENS + 1, 2 * CHUNK_TOKENS])
def test_a_state_is_the_last_inputs_whatever_the_length(accelerator, width, length):
    batch = Batch.random([length, length], has_state=[True, False], width=width)
    expect_convolved(accelerator, causal_conv1d, batch)


def test_a_long_sequence_is_its_decode_steps(accelerator):
    """A prompt of 11 tokens gives the same outputs and state as 11 decode steps, each of which
    continues from the state of the last step."""
    whole = Batch.random([11], has_state=[False])
    conv_states, outputs = whole.on(accelerator)["conv_states"], []
    for token in range(11):
        step = whole.step(token, has_state=token > 0)
        args = step.on(accelerator) | {"conv_states": conv_states}
        outputs.append(causal_conv1d.causal_conv1d_fn(**args, metadata=step.metadata(accelerator)))
    expect_close((torch.cat(outputs), conv_states), whole.expected())


def test_channels_beyond_one_block(accelerator):
    dim = BLOCK_DIM + 3
    expect_convolved(accelerator, causal_conv1d, Batch.random([2, CHUNK_TOKENS + 1], dim=dim))


def test_a_zero_length_sequence_leaves_its_slot_alone(accelerator):
    batch = Batch.random([0, 2, 0], slots=[1, 2, 1], has_state=[False, True, True])
    expect_convolved(accelerator, causal_conv1d, batch)


def test_an_empty_batch_is_nothing(accelerator):
    for lengths in ([], [0, 0]):
        expect_convolved(accelerator, causal_conv1d, Batch.random(lengths))


def test_an_index_beyond_the_slots_touches_nothing(accelerator):
    """A sequence whose slot is outside the pool is computed as one without a slot, and nothing is
    written, if the host doesn't know the slots."""
    batch = Batch.random([2, 1], slots=[9, 0])
    args = batch.on(accelerator)
    metadata = prepare_conv_metadata(batch.starts, accelerator.device)
    output = causal_conv1d.causal_conv1d_fn(**args, metadata=metadata)
    expect_close((output, args["conv_states"]), replace(batch, slots=[PAD_SLOT, 0]).expected())


ANOTHER = [9, 1], [1, 9], [0, 10], [10, 0], [5, 5]
"""Lengths of other batches with as many tokens as [2, 8], but different chunks (except [5, 5])."""


@pytest.mark.sim
@pytest.mark.parametrize("lengths", ANOTHER, ids=str)
@pytest.mark.parametrize("is_planned", [False, True], ids=["of these", "of others"])
def test_metadata_of_another_batch_of_as_many_tokens(accelerator, lengths, is_planned):
    """Metadata of another batch with as many tokens raises RuntimeError on sim, and changes no
    state. A GPU doesn't check it, and computes the tokens that have a chunk."""
    mine, others = Batch.random([2, 8]), Batch.random(lengths)
    batch, planned = (others, mine) if is_planned else (mine, others)
    args = batch.on(accelerator)
    call = lambda: causal_conv1d.causal_conv1d_fn(**args, metadata=planned.metadata(accelerator))
    if lengths == [5, 5]:  # The chunks are those of [2, 8].
        return expect_close((call(), args["conv_states"]), batch.expected())
    was = args["conv_states"].cpu()
    with pytest.raises(RuntimeError, match="metadata is of another batch: prepare it from this"):
        call()
    assert torch.equal(args["conv_states"].cpu(), was)


@pytest.mark.parametrize("end", [CHUNK_TOKENS + 100, 2**31 - 1])
def test_a_sequence_that_goes_on_behind_the_last_token_ends_there(accelerator, end):
    """A last sequence whose end lies beyond the tokens is computed as if it ended at the last
    token. The host can't check starts that are on the device."""
    batch = Batch.random([3, CHUNK_TOKENS + 1])
    args = batch.on(accelerator)
    # The tokens after the last one are not the batch's.
    wide = torch.full((len(batch.x) + 2 * CHUNK_TOKENS, DIM), 7.0, device=accelerator.device)
    wide[: len(batch.x)] = args["x"]
    args["x"] = wide[: len(batch.x)]
    args["query_start_loc"] = torch.tensor([0, 3, end], dtype=torch.int32).to(accelerator.device)
    output = causal_conv1d.causal_conv1d_fn(**args, metadata=batch.metadata(accelerator))
    expect_close((output, args["conv_states"]), batch.expected())


def test_tables_may_be_longer_than_their_chunks(accelerator):
    """Chunk tables may end with rows of sequence -1, as those made on the device do. Such rows are
    not computed, even if tokens and a slot would lie right before those of the others."""
    batch = Batch.random([2, 3, 0, CHUNK_TOKENS + 1])
    args = batch.on(accelerator)
    for name in ("query_start_loc", "cache_indices", "has_initial_state"):
        args[name] = args[name][1:]
    of_others = prepare_conv_metadata(batch.starts[1:] - batch.starts[1], accelerator.device)
    beyond = torch.full((3,), -1, dtype=torch.int32, device=accelerator.device)
    metadata = replace(
        of_others,
        batch_of_chunk=torch.cat([of_others.batch_of_chunk, beyond]),
        chunk_offset=torch.cat([of_others.chunk_offset, 0 * beyond]),
        num_tokens=len(batch.x),
    )
    output = causal_conv1d.causal_conv1d_fn(**args, metadata=metadata)
    right, states = replace(batch, slots=[PAD_SLOT, *batch.slots[1:]]).expected()
    expect_close((output[2:], args["conv_states"]), (right[2:], states))


def test_channels_of_the_states_side_by_side(accelerator):
    batch = Batch.random([3, CHUNK_TOKENS + 2, 1])
    args = batch.on(accelerator)
    transposed = args["conv_states"].transpose(1, 2).contiguous().transpose(1, 2)
    assert transposed.stride(1) == 1
    expect_convolved(accelerator, causal_conv1d, batch, args | {"conv_states": transposed})


def test_inputs_that_are_a_part_of_a_wider_projection(accelerator):
    batch = Batch.random([3, CHUNK_TOKENS + 2, 1])
    args = batch.on(accelerator)
    wider = torch.full((sum(batch.lengths), 3 * DIM), torch.nan, device=accelerator.device)
    wider[:, DIM : 2 * DIM] = args["x"]
    part = wider[:, DIM : 2 * DIM]
    expect_convolved(accelerator, causal_conv1d, batch, args | {"x": part})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(accelerator, dtype):
    batch = Batch.random([3, CHUNK_TOKENS + 2, 1])
    args = batch.on(accelerator, dtype)
    expect_convolved(accelerator, causal_conv1d, batch, args, tolerance=5e-2)
    kept = batch.on(accelerator, dtype)["x"][2 + CHUNK_TOKENS : 5 + CHUNK_TOKENS]
    assert torch.equal(args["conv_states"][1].T.cpu(), kept.cpu())  # not rounded a second time


def decode_batch(num_seqs, longest=2, dim=DIM):
    """Returns a batch of `num_seqs` sequences with random lengths from 0 to `longest`."""
    random = np.random.default_rng(2)
    lengths = random.integers(0, longest + 1, num_seqs)
    return Batch.random(lengths, has_state=random.integers(0, 2, num_seqs) > 0, dim=dim)


def test_many_requests_of_up_to_two_tokens(accelerator):
    num_seqs = 200 if accelerator.modelled else LARGE  # interpreted, a program takes 4 ms
    expect_convolved(accelerator, causal_conv1d, decode_batch(num_seqs))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(3))
def test_programs_do_not_race_for_the_states(accelerator, seed):
    """Outputs and states of a batch with prompts of many chunks among decodes are right, although
    its programs run in any order and each must find the old states."""
    lengths = np.random.default_rng(seed).choice([0, 1, 2, 5, 300, 2000], 128)
    expect_convolved(accelerator, causal_conv1d, Batch.random(lengths, dim=300, width=4))


def test_no_layer_uploads_or_waits(accelerator):
    batch = Batch.random([3, 1])
    args, metadata = batch.on(accelerator), batch.metadata(accelerator)
    call = lambda: causal_conv1d.causal_conv1d_fn(**args, metadata=metadata)
    assert claims.expect_no_wait(accelerator, call, 0)["kernels"] == 1


def test_before_waited_three_times_in_every_layer(accelerator):
    batch = Batch.random([3, 1])
    args, metadata = batch.on(accelerator), batch.metadata(accelerator)
    call = lambda: before.causal_conv1d_fn(**args, metadata=metadata)
    counts = claims.counts_of(accelerator, call)
    assert (counts["host_syncs"], counts["d2h"], counts["h2d_pageable"]) == (3, 1, 2)


@pytest.mark.gpu
def test_the_host_returns_at_once_also_with_4096_requests(accelerator):
    batch = decode_batch(LARGE, dim=256)
    args, slots = batch.on(accelerator), torch.tensor(batch.slots)

    def a_step():
        metadata = prepare_conv_metadata(batch.starts, accelerator.device, slots)
        causal_conv1d.causal_conv1d_fn(**args, metadata=metadata)

    claims.expect_host_returns(accelerator, a_step)


def test_overlapped_steps_each_go_on_from_the_last_states(accelerator):
    """Decode steps of one sequence that are queued one after another continue from each other's
    states. (The first token runs once more, to warm up.)"""
    whole = Batch.random([1 + claims.OVERLAPPED_CALLS], slots=[1])
    whole.x[0] = whole.x[1]
    first = whole.step(1)
    args, metadata = first.on(accelerator), first.metadata(accelerator)
    tokens = [whole.step(1 + n).on(accelerator)["x"] for n in range(claims.OVERLAPPED_CALLS)]
    call = lambda x: causal_conv1d.causal_conv1d_fn(**args | {"x": x}, metadata=metadata)
    results = claims.overlapped(accelerator, call, tokens)
    output, conv_states = whole.expected()
    expect_close((torch.cat(results), args["conv_states"]), (output[1:], conv_states))


BAD_ARGUMENTS = {
    "inputs of torch.float64": {"x": lambda x: x.double()},
    "channels of a token side by side": {"x": lambda x: x.T.contiguous().T},
    r"a weight of shape \[5, 5\]": {"weight": lambda x: x.repeat(1, 2)[:, :5]},
    r"a weight of shape \[4, 5\]": {"weight": lambda x: x.T},
    "the weight must be contiguous": {"weight": lambda x: x[:, ::2]},
    r"a bias of shape \[4\]": {"bias": lambda x: x[:4]},
    r"conv_states of shape \[4, 5, 2\]": {"conv_states": lambda x: x[..., :2]},
    "conv_states of torch.float16": {"conv_states": lambda x: x.half()},
    "activation 'gelu'": {"activation": "gelu"},
    "cache_indices is torch.int64": {"cache_indices": lambda x: x.long()},
    r"query_start_loc is torch.int32 \[2\]": {"query_start_loc": lambda x: x[:2]},
    "has_initial_state is torch.int32": {"has_initial_state": lambda x: x.int()},
    "metadata of 4 tokens, and x has 3": {"x": lambda x: x[:3]},
    "cache index 1: these conv_states have 1 slots": {"conv_states": lambda x: x[:1]},
    "metadata is None": {"metadata": None},
}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    batch = Batch.random([3, 1])
    args = batch.on(accelerator) | {"metadata": batch.metadata(accelerator)}
    bad = changed(args, BAD_ARGUMENTS[message])
    call = lambda: causal_conv1d.causal_conv1d_fn(**bad)
    expect_refused(accelerator, call, message, unchanged=(args["conv_states"],))


def test_the_metadata_of_another_batch_is_refused(accelerator):
    batch, other = Batch.random([3, 1]), Batch.random([4])
    args, metadata = batch.on(accelerator), other.metadata(accelerator)
    call = lambda: causal_conv1d.causal_conv1d_fn(**args, metadata=metadata)
    message = "metadata of 1 sequences for a batch of 2"
    expect_refused(accelerator, call, message, unchanged=(args["conv_states"],))
