"""The convolution's decode step, compared with loops in PyTorch and with the convolution itself."""

from dataclasses import dataclass, replace
from itertools import accumulate

import pytest
import torch

from solutions.gdn.model import conv_update
from solutions.gdn.model.conv_update import causal_conv1d_update
from solutions.sync_free.kernels.causal_conv1d import BLOCK_DIM
from solutions.sync_free.model.conv_chunks import prepare_conv_metadata
from solutions.sync_free.sites.causal_conv1d import causal_conv1d_fn
from tests.common import claims
from tests.common.refusals import changed, expect_refused

from .sequences import SHARED_SLOTS, SLOT_TABLE, integers

DIM, NUM_SLOTS = 5, 9


@dataclass(frozen=True)
class Batch:
    """Random inputs of the convolution for sequences of these lengths, on the host in float32."""

    lengths: list[int]
    x: torch.Tensor
    weight: torch.Tensor
    bias: torch.Tensor | None
    conv_states: torch.Tensor
    activation: str | None

    @classmethod
    def random(cls, lengths, width=4, dim=DIM, bias=True, activation="silu"):
        generator = torch.Generator().manual_seed(5)
        numbers = lambda *shape: torch.randn(shape, generator=generator)
        return cls(
            list(lengths),
            numbers(sum(lengths), dim),
            numbers(dim, width),
            numbers(dim) if bias else None,
            numbers(NUM_SLOTS, dim, width - 1),
            activation,
        )

    @property
    def starts(self):
        return [0, *accumulate(self.lengths)]

    def expected(self, first_slots, slots_behind):
        """Returns the right (output, conv_states). `first_slots` has the slot whose state each
        sequence starts from, or None if the sequence is not computed. `slots_behind` has the slot
        for the state after each of its tokens, or None."""
        output, conv_states = torch.zeros_like(self.x), self.conv_states.clone()
        width = self.weight.shape[1]
        for n, length in enumerate(self.lengths):
            if first_slots[n] is None:
                continue
            window = self.conv_states[first_slots[n]]
            for token in range(length):
                row = self.starts[n] + token
                window = torch.cat([window[:, 1 - width :], self.x[row][:, None]], 1)
                result = (window * self.weight).sum(1)
                if self.bias is not None:
                    result = result + self.bias
                if self.activation:
                    result = torch.nn.functional.silu(result)
                output[row] = result
                if slots_behind[n][token] is not None:
                    conv_states[slots_behind[n][token]] = window[:, 1:]
        return output, conv_states

    def expected_of(self, slots):
        """Returns the right (output, conv_states) if each sequence has one slot, where its state is
        read and written."""
        behind = [[slot] * length for slot, length in zip(slots, self.lengths, strict=True)]
        return self.expected(slots, behind)

    def on(self, accelerator, dtype=torch.float32):
        send = lambda tensor: None if tensor is None else tensor.to(dtype).to(accelerator.device)
        return {
            "x": send(self.x),
            "weight": send(self.weight),
            "bias": send(self.bias),
            "conv_states": send(self.conv_states.clone()),
            "activation": self.activation,
        }


def run(accelerator, batch, slots, accepted=None, with_starts=True, **changes):
    """Calls causal_conv1d_update on the device for this batch and these slots, and returns (output,
    conv_states)."""
    args = batch.on(accelerator) | changes
    output = causal_conv1d_update(
        **args,
        state_indices=integers(accelerator.device, slots),
        query_start_loc=integers(accelerator.device, batch.starts) if with_starts else None,
        num_accepted_tokens=None if accepted is None else integers(accelerator.device, accepted),
    )
    return output, args["conv_states"]


def expect_close(found, right, tolerance=1e-5):
    for tensor, expected in zip(found, right, strict=True):
        torch.testing.assert_close(tensor.cpu().float(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("activation", ["silu", None])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_decode_step(accelerator, width, bias, activation):
    batch = Batch.random([1, 1, 1], width, bias=bias, activation=activation)
    found = run(accelerator, batch, [4, 0, 7], with_starts=False)
    expect_close(found, batch.expected_of([4, 0, 7]))


@pytest.mark.parametrize("width", [2, 4])
def test_sequences_of_any_lengths(accelerator, width):
    batch = Batch.random([3, 0, 1, 6], width)
    found = run(accelerator, batch, [8, 2, 3, 5])
    expect_close(found, batch.expected_of([8, 2, 3, 5]))


def test_it_is_the_convolution_of_sequences_that_have_a_state(accelerator):
    batch = Batch.random([1, 4, 2])
    slots, args = [3, 1, 6], batch.on(accelerator)
    right = causal_conv1d_fn(
        **args,
        query_start_loc=integers(accelerator.device, batch.starts),
        cache_indices=integers(accelerator.device, slots),
        has_initial_state=torch.ones(3, dtype=torch.bool, device=accelerator.device),
        metadata=prepare_conv_metadata(torch.tensor(batch.starts), accelerator.device),
    )
    found = run(accelerator, batch, slots)
    expect_close(found, (right.cpu(), args["conv_states"].cpu()))


def test_channels_beyond_one_block(accelerator):
    batch = Batch.random([1, 2], dim=BLOCK_DIM + 3)
    expect_close(run(accelerator, batch, [1, 0]), batch.expected_of([1, 0]))


@pytest.mark.parametrize("slot", [-1, -7, NUM_SLOTS, 2**31 - 1])
def test_a_slot_out_of_range_gives_zeros_and_writes_nothing(accelerator, slot):
    batch = Batch.random([2, 1, 1])
    found = run(accelerator, batch, [slot, 3, slot])
    expect_close(found, batch.expected([None, 3, None], [None, [3], None]))


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("accepted", [[1, 1], [1, 3], [3, 2]], ids=str)
def test_each_drafted_token_leaves_its_state_in_a_slot_of_its_own(accelerator, accepted, width):
    """A token's state may overwrite the slot that its sequence starts from, which later tokens
    still need (vLLM #50729)."""
    batch = Batch.random([3, 2], width)
    first = [slots[count - 1] for slots, count in zip(SLOT_TABLE, accepted, strict=True)]
    expect_close(run(accelerator, batch, SLOT_TABLE, accepted), batch.expected(first, SLOT_TABLE))


@pytest.mark.parametrize("accepted", [0, 4, -3])
def test_a_number_of_accepted_tokens_without_a_column_touches_nothing(accelerator, accepted):
    batch = Batch.random([3, 2])
    found = run(accelerator, batch, SLOT_TABLE, [1, accepted])
    expect_close(found, batch.expected([4, None], SLOT_TABLE))


def test_drafts_without_a_slot_are_computed_and_not_kept(accelerator):
    """Draft tokens without a slot have right outputs, but their states are not stored: one draft's
    slot is a pad, and one is past the end of the row of slots."""
    batch = Batch.random([4])
    found = run(accelerator, batch, [[4, -1, 7]], [1])
    expect_close(found, batch.expected([4], [[4, None, 7, None]]))


def test_a_draft_whose_slot_lies_behind_the_pool_is_computed_and_not_kept(accelerator):
    batch = Batch.random([3])
    whole = batch.conv_states.to(accelerator.device)
    output, _ = run(accelerator, batch, [[4, 7, 1]], [1], conv_states=whole[:7])
    expect_close((output, whole), batch.expected([4], [[4, None, 1]]))


@pytest.mark.sim
@pytest.mark.parametrize(("lengths", "slots", "accepted"), SHARED_SLOTS.values(), ids=SHARED_SLOTS)
def test_a_slot_of_two_sequences_is_seen(accelerator, lengths, slots, accepted):
    """Two sequences that write to one slot raise RuntimeError on sim. A GPU doesn't detect it: one
    of the two sequences writes last."""
    with pytest.raises(RuntimeError, match="two sequences with tokens have one slot: give each"):
        run(accelerator, Batch.random(lengths), slots, accepted)


def test_slots_that_no_token_writes_may_be_shared(accelerator):
    """Two sequences may have the same slot if no token writes to it: no tokens, no drafts, or a
    slot of -1."""
    run(accelerator, Batch.random([0, 2, 1, 1]), [0, 0, -1, -1])
    run(accelerator, Batch.random([1, 1]), [[0, 3], [1, 3]], [1, 1])


def test_tokens_behind_the_last_sequence_give_zeros(accelerator):
    """Outputs are zero for tokens after the last sequence, as a batch has that is padded for a
    graph, even if they are NaN."""
    batch = Batch.random([2, 1])
    x = batch.on(accelerator)["x"]
    padded = torch.cat([x, torch.full_like(x, torch.nan)])
    output, conv_states = run(accelerator, batch, [0, 1], x=padded)
    expect_close((output[:3], conv_states), batch.expected_of([0, 1]))
    assert output.shape == padded.shape
    assert not output[3:].any()


@pytest.mark.parametrize("length", [4, 5000, 2**30])
def test_a_sequence_that_goes_on_behind_the_last_token_ends_there(accelerator, length):
    """A last sequence whose end lies beyond the tokens is computed as if it ended at the last
    token. The host can't check starts that are on the device."""
    batch = Batch.random([2, 3])
    found = run(accelerator, replace(batch, lengths=[2, length]), [4, 0])
    expect_close(found, batch.expected_of([4, 0]))


def test_an_empty_batch_is_nothing(accelerator):
    for lengths, options in (([], {}), ([], {"with_starts": False}), ([0, 0], {})):
        batch = Batch.random(lengths)
        slots = list(range(len(lengths)))
        expect_close(run(accelerator, batch, slots, **options), batch.expected_of(slots))


def test_a_part_of_a_wider_projection_and_states_with_channels_side_by_side(accelerator):
    batch = Batch.random([2, 1])
    args = batch.on(accelerator)
    wider = torch.full((3, 3 * DIM), torch.nan).to(accelerator.device)
    wider[:, DIM : 2 * DIM] = args["x"]
    transposed = args["conv_states"].transpose(1, 2).contiguous().transpose(1, 2)
    changes = {"x": wider[:, DIM : 2 * DIM], "conv_states": transposed}
    expect_close(run(accelerator, batch, [5, 2], **changes), batch.expected_of([5, 2]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(accelerator, dtype):
    batch = Batch.random([2, 1])
    args = batch.on(accelerator, dtype)
    found = run(accelerator, batch, [5, 2], **args)
    assert found[0].dtype == dtype
    expect_close(found, batch.expected_of([5, 2]), tolerance=5e-2)
    kept = batch.on(accelerator, dtype)["x"][:2]
    assert torch.equal(args["conv_states"][5, :, 1:].T.cpu(), kept.cpu())  # not rounded again


def test_nan_stays_in_its_sequence_and_is_seen_there(accelerator):
    batch = Batch.random([2, 2, 1])
    right, states = batch.expected_of([0, 1, 2])
    x = batch.on(accelerator)["x"]
    x[2] = torch.nan
    output, conv_states = run(accelerator, batch, [0, 1, 2], x=x)
    assert output[2:4].isnan().all()
    others = [0, 1, 4]
    expect_close((output[others], conv_states[[0, 2]]), (right[others], states[[0, 2]]))


def test_many_sequences(accelerator):
    count = 50 if accelerator.modelled else 4096  # interpreted, a program takes milliseconds
    batch = Batch.random([1] * count)
    args = batch.on(accelerator)
    conv_states = torch.randn(count, DIM, 3)
    slots = torch.randperm(count)
    on_device = conv_states.to(accelerator.device)
    output = causal_conv1d_update(
        **args | {"conv_states": on_device},
        state_indices=integers(accelerator.device, slots.tolist()),
    )
    window = torch.cat([conv_states[slots], batch.x[:, :, None]], 2)
    right = torch.nn.functional.silu((window * batch.weight).sum(2) + batch.bias)
    expect_close((output, on_device.cpu()[slots]), (right, window[:, :, 1:]))


def test_one_launch_and_nobody_waits(accelerator):
    batch = Batch.random([1, 1])
    args = batch.on(accelerator)
    starts, accepted = integers(accelerator.device, [0, 1, 2]), integers(accelerator.device, [1, 2])
    for options in (
        {"state_indices": integers(accelerator.device, [3, 1])},
        {
            "state_indices": integers(accelerator.device, SLOT_TABLE),
            "query_start_loc": starts,
            "num_accepted_tokens": accepted,
        },
    ):
        call = lambda options=options: causal_conv1d_update(**args, **options)
        assert claims.expect_no_wait(accelerator, call, 0)["kernels"] == 1


def test_the_modelled_time_is_that_of_a_state_for_each_drafted_token(accelerator, monkeypatch):
    """The modelled work counts one read of the state for each sequence, and one write for each
    sequence, or for each of its tokens if every token has a slot."""
    works = []
    keep = lambda *args, work, **constants: works.append(work())
    monkeypatch.setattr(conv_update, "launch", keep)
    run(accelerator, Batch.random([2, 1]), [3, 1])
    run(accelerator, Batch.random([2, 1]), SLOT_TABLE, [1, 1])
    tokens, state = 2 * 3 * DIM, DIM * 3
    assert [work.bytes // 4 for work in works] == [tokens + 4 * state, tokens + 5 * state]


def test_overlapped_steps_each_go_on_from_the_last_state(accelerator):
    batch = Batch.random([claims.OVERLAPPED_CALLS])
    args, slots = batch.on(accelerator), integers(accelerator.device, [2])
    call = lambda x: causal_conv1d_update(**args | {"x": x}, state_indices=slots)
    inputs = [args["x"][n : n + 1].clone() for n in range(claims.OVERLAPPED_CALLS)]
    results = claims.overlapped(accelerator, call, inputs, warm_up=False)
    expect_close((torch.cat(results), args["conv_states"]), batch.expected_of([2]))


BAD_ARGUMENTS = {
    "inputs of torch.float64": {"x": lambda x: x.double()},
    r"a weight of shape \[4, 5\]": {"weight": lambda x: x.T},
    r"a bias of shape \[4\]": {"bias": lambda x: x[:4]},
    r"conv_states of shape \[9, 5, 2\]": {"conv_states": lambda x: x[..., :2]},
    "activation 'gelu'": {"activation": "gelu"},
    r"state_indices is torch.int64 \[2, 3\]": {"state_indices": lambda x: x.long()},
    r"state_indices is torch.int32 \[2\]: make it torch.int32 \[2, 1 \+ drafts\]": {
        "state_indices": lambda x: x[:, 0]
    },
    r"state_indices is torch.int32 \[2, 3\]: make it torch.int32 \[4\]": {
        "query_start_loc": None,
        "num_accepted_tokens": None,
    },
    "the slots of a sequence must be contiguous": {"state_indices": lambda x: x.T.contiguous().T},
    r"query_start_loc is torch.int64 \[3\]": {"query_start_loc": lambda x: x.long()},
    r"num_accepted_tokens is torch.int32 \[1\]: for 2 sequences": {
        "num_accepted_tokens": lambda x: x[:1]
    },
}


@pytest.mark.parametrize("message", BAD_ARGUMENTS)
def test_what_does_not_fit_is_refused(accelerator, message):
    batch = Batch.random([3, 1])
    args = batch.on(accelerator) | {
        "state_indices": integers(accelerator.device, SLOT_TABLE),
        "query_start_loc": integers(accelerator.device, batch.starts),
        "num_accepted_tokens": integers(accelerator.device, [1, 1]),
    }
    bad = changed(args, BAD_ARGUMENTS[message])
    call = lambda: causal_conv1d_update(**bad)
    expect_refused(accelerator, call, message, unchanged=(args["conv_states"],))
