"""Tests of the kata `replay_another_batch`."""

import pytest
import torch

import debubble
from debubble.workshop import Diagnosis, KataFailure, expect, expect_equal

SIZES = (4, 16, 8)  # in no order
SLOTS = 64  # slot 0 belongs to nobody
STALE = (
    "A graph reads the address that it read when it was captured. An attribute that is bound to "
    "another tensor changes nothing there: copy the step's rows into the tensor of the capture, "
    "before the replay."
)
CUT = (
    "How many rows `forward` gets is a number of Python, and a graph keeps the one of its capture. "
    "Capture as many rows as the size says: a step with fewer of them is padded, one with more "
    "would lose some."
)
PADDED = (
    "A graph computes as many rows as it was captured with, those of the padding too. Whoever "
    "asked knows of no padding: return the first `num_tokens` rows, a view."
)
LEFT_BEHIND = (
    "Rows that a step does not write still hold tokens of an earlier, longer step. The graph "
    "computes them again, and writes their keys to slots that may be another request's by now. "
    "Write all rows of the graph, and PADDING behind the step's own: its slot is -1."
)
TOO_LARGE = (
    "The smallest graph that holds the step will do: a larger one computes more rows of padding, "
    "and memory is read and written for each."
)
EAGER = "No graph has so many rows. Call `forward` with the step's own rows, without padding."
ONE_UPLOAD = (
    "A step should cost the host one copy and one launch, and no wait. A copy from pageable "
    "memory, and one without non_blocking=True, hold the host until the device has done all that "
    "was queued before. Fill one pinned tensor, padding included, and copy it to the graph's rows."
)
CAPTURED_AGAIN = (
    "A capture runs all of Python's code and waits for the device: it costs more than the step "
    "that it saves. Capture each size once; a step only writes its rows and replays."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. A pinned tensor that the next step writes "
    "to again may bring the rows of the wrong step. Take a fresh one in each: PyTorch keeps its "
    "memory until the copy is done."
)


class Model:
    """Writes each token's key to its slot, and returns for each token its key, and the key that
    lies in the slot before its own."""

    def __init__(self, device):
        self.keys = torch.zeros(SLOTS, dtype=torch.int64, device=device)
        self.rows_computed = torch.zeros((), dtype=torch.int64, device=device)
        self.calls = 0

    def __call__(self, rows):
        self.calls += 1
        self.rows_computed += len(rows)
        token_ids, positions, slots = rows.unbind(1)
        keys = 100 * token_ids + positions
        self.keys.index_copy_(0, slots.clamp(min=0), keys)
        return torch.stack([keys, self.keys[(slots - 1).clamp(min=0)]], dim=1)


def rows_of(num_tokens, first_slot=1):
    """Tokens in slots that are next to each other, like those of no other place."""
    i = torch.arange(first_slot, first_slot + num_tokens)
    return torch.stack([7 * i, 3 * i + first_slot, i], dim=1)


def tokens(number):
    return "1 token" if number == 1 else f"{number} tokens"


def captured(kata, accelerator):
    model = Model(accelerator.device)
    return model, kata.CapturedForward(model, SIZES, accelerator.device)


def expect_steps(kata, accelerator, sizes):
    """Each step is what the model computes of its rows on the CPU."""
    _, steps = captured(kata, accelerator)
    model = Model("cpu")
    for number, num_tokens in enumerate(sizes):
        rows = rows_of(num_tokens, first_slot=1 + sum(sizes[:number]))
        right = model(rows)
        after = f" after steps of {sizes[:number]}" if number else ""
        call = f"step(rows of {tokens(num_tokens)}){after}"
        expect_equal(steps.step(rows), right, call=call, likely=likely_cause)


def likely_cause(actual, expected):
    if not isinstance(actual, torch.Tensor) or len(actual) == len(expected):
        return STALE
    return PADDED if len(actual) > len(expected) else CUT


@pytest.mark.parametrize("num_tokens", [4, 3, 1, 8, 5, 16, 11])
def test_a_step_computes_its_own_rows(kata, accelerator, num_tokens):
    expect_steps(kata, accelerator, [num_tokens])


@pytest.mark.parametrize("sizes", [[4, 3, 4], [1, 4, 2], [16, 9, 3], [7, 8, 40, 6]], ids=str)
def test_steps_of_different_sizes_follow_each_other(kata, accelerator, sizes):
    expect_steps(kata, accelerator, sizes)


@pytest.mark.parametrize("num_tokens", [17, 40])
def test_more_tokens_than_a_graph_holds_run_without_one(kata, accelerator, num_tokens):
    expect_steps(kata, accelerator, [num_tokens])
    model, steps = captured(kata, accelerator)
    before, calls = model.rows_computed.item(), model.calls
    with debubble.record(accelerator) as timeline:
        steps.step(rows_of(num_tokens))
    expect(timeline).counts(graph_launches=0, why=EAGER)
    value = f"the number of rows that are computed in a step of {num_tokens} tokens"
    expect_equal(model.rows_computed.item() - before, num_tokens, value=value, likely=EAGER)
    expect_equal(model.calls - calls, 1, value="the number of calls of `forward` in that step")


@pytest.mark.parametrize(("num_tokens", "size"), [(1, 4), (4, 4), (5, 8), (9, 16)])
def test_the_smallest_graph_that_holds_a_step_runs_it(kata, accelerator, num_tokens, size):
    model, steps = captured(kata, accelerator)
    steps.step(rows_of(num_tokens))
    before, calls = model.rows_computed.item(), model.calls
    steps.step(rows_of(num_tokens, first_slot=20))
    computed = model.rows_computed.item() - before
    value = f"the number of rows that are computed in a step of {tokens(num_tokens)}"
    likely = CAPTURED_AGAIN if model.calls > calls else TOO_LARGE if computed > size else CUT
    expect_equal(computed, size, value=value, likely=likely)


def test_padding_writes_no_keys(kata, accelerator):
    model, steps = captured(kata, accelerator)
    steps.step(rows_of(4, first_slot=10))
    # The request of these slots is done, and others have them now.
    model.keys.fill_(-5)
    steps.step(rows_of(1, first_slot=30))
    written = (model.keys[1:].cpu() != -5).nonzero().flatten() + 1
    beside = [slot for slot in written.tolist() if slot != 30]
    if beside:
        raise KataFailure(
            Diagnosis(
                expected="a step of 1 token, whose slot is 30, to write to no other slot",
                did=f"wrote keys to the slots {beside} too, those of a step of 4 tokens before it",
                why=LEFT_BEHIND,
            )
        )


def test_a_step_is_one_upload_and_one_launch(kata, accelerator):
    _, steps = captured(kata, accelerator)
    steps.step(rows_of(3))
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        steps.step(rows_of(3, first_slot=9))
    expect(timeline).counts(host_syncs=0, graph_launches=1, why=ONE_UPLOAD)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) == 1,
        expected="1 upload",
        did=f"made {len(uploads) or 'no'} uploads",
        events=uploads,
        why=ONE_UPLOAD,
    )
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pinned=1, h2d_pageable=0, why=ONE_UPLOAD)


def test_a_size_is_captured_once(kata, accelerator):
    model, steps = captured(kata, accelerator)
    for num_tokens in SIZES:
        steps.step(rows_of(num_tokens))
    calls = model.calls
    for num_tokens in (2, 4, 6, 16):
        steps.step(rows_of(num_tokens, first_slot=9))
    value = "the number of calls of `forward` in 4 steps of sizes that are captured"
    expect_equal(model.calls - calls, 0, value=value, likely=CAPTURED_AGAIN)


def test_steps_in_flight_do_not_disturb_each_other(kata, accelerator):
    batches = [rows_of(3 + step % 2, first_slot=1 + 4 * step) for step in range(6)]
    _, steps = captured(kata, accelerator)
    alone = [steps.step(rows).cpu() for rows in batches]
    _, steps = captured(kata, accelerator)
    accelerator.synchronize()
    rows, outputs = torch.zeros(4, 3, dtype=torch.int64), []
    with debubble.record(accelerator) as timeline:
        # Long enough for a real host to queue everything; the modelled host needs less.
        accelerator.sleep(2.0 if accelerator.modelled else 50.0)
        for batch in batches:
            # The caller has one tensor, and changes it at once.
            rows[: len(batch)].copy_(batch)
            outputs.append(steps.step(rows[: len(batch)]).clone())
    expect(timeline).no_hazards(why=REUSED)
    for number, (output, right) in enumerate(zip(outputs, alone, strict=True)):
        value = f"the output of step {number}, of 6 steps behind a kernel that was still running,"
        expect_equal(output, right, value=value, likely=REUSED)
