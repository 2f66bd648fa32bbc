"""Tests of the kata `data_parallel`."""

import itertools

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    closed_gate,
    expect,
    expect_equal,
)

RANK, SIZE = 2, 4
STEPS = 100
"""More steps than any likely ring of buffers, taken in turn without a check, would have."""
# No two steps are alike, or memory left by an earlier step could pass for a copy.
numbers = itertools.count(1)
WAITS = (
    "The step cannot be prepared while the host waits. A number written into a device tensor is an "
    "upload from pageable memory, and so is a whole tensor that is not pinned, with "
    "`non_blocking=True` or without: each waits until its stream has done what was queued before. "
    "The read need not wait here either: start the copy, record an event after it, and leave the "
    "waiting to `read`."
)
TOO_EARLY = (
    "A copy that does not block is done some time later, and until then its pinned memory holds "
    "something else. `read` has to make sure that the event recorded after the copy is done. And a "
    "stream does not wait for another stream by itself: the upload, the sum and the copy back all "
    "belong inside `with group.stream:`."
)
ONE_BUFFER = (
    "Many steps may be queued before the first is read. If they share one pinned buffer, to upload "
    "from or to read back into, each step overwrites values that the step before still needs. "
    "Pinned memory that is fresh in each call is safe: PyTorch keeps it until its copies are done."
)
DONE = (
    "The copy was done long ago. Even a wait for a finished copy is a call into the driver, and it "
    "shows as a host sync. Call `event.query()` first."
)
BEHIND_THE_MODEL = (
    "This exchange needs nothing of the model, but on the model's stream it comes after all that "
    "is queued there, so `read` waits for the step before. On `group.stream` it is done at once. "
    "And wait only for its event, not for the device or for a stream."
)


class FourRanks:
    """A group of four ranks, all played by this process. `said` is what each rank says in each
    step.

    It is [STEPS, 4, SIZE]: original tokens, padded tokens, should_ubatch, graph mode of each rank.
    """

    def __init__(self, accelerator, first=None):
        self.rank, self.size, self.stream = RANK, SIZE, accelerator.stream()
        self.device = accelerator.device
        said = numbers if first is None else itertools.count(first)
        ranks = [[column(rank, next(said)) for rank in range(SIZE)] for _ in range(STEPS)]
        self.said = torch.tensor(ranks, dtype=torch.int32).transpose(1, 2).contiguous()
        others = self.said.clone()
        others[:, :, RANK] = 0
        self.others = list(others.to(self.device))
        accelerator.synchronize()

    def all_reduce(self, state):
        where = "the tensor that all_reduce was given"
        expect_equal(state.device.type, self.device.type, value=f"the device of {where}")
        expect_equal(tuple(state.shape), (4, SIZE), value=f"the shape of {where}")
        state += self.others.pop(0)

    def own_column(self, *numbers):
        """Returns this rank's column without an upload: the numbers are arguments of kernels."""
        state = torch.zeros(4, SIZE, dtype=torch.int32, device=self.device)
        for row, number in enumerate(numbers):
            state[row, RANK : RANK + 1].fill_(number)
        return state


def column(rank, number):
    return [number, number + 8 * rank, (number + rank) % 2, number % 3]


def run(kata, group, step):
    tokens, padded, should_ubatch, mode = group.said[step, :, RANK].tolist()
    return kata._run_ar(bool(should_ubatch), tokens, padded, mode, group)


def expect_state(values, group, step, likely=""):
    rows = "tokens, padded tokens, should_ubatch, graph mode"
    value = f"what `read` gave for step {step}, row by row: {rows}"
    expect_equal(values, group.said[step], value=value, likely=likely)


def busy(accelerator):
    """Keeps the current stream busy until a real host has queued everything."""
    accelerator.sleep(0.5 if accelerator.modelled else 20.0)


def test_it_reads_a_column_of_each_rank(kata, accelerator):
    group = FourRanks(accelerator)
    for step in range(3):
        pending = run(kata, group, step)
        accelerator.synchronize()
        expect_state(pending.read(), group, step)


def test_nobody_waits_while_the_step_is_prepared(kata, accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory cannot be pinned on this machine, so every upload waits")
    group = FourRanks(accelerator)
    with debubble.record(accelerator) as timeline:
        busy(accelerator)
        run(kata, group, step=0)
    expect(timeline).at_most(host_syncs=0, h2d_pageable=0, h2d_pinned=1, d2h=1, why=WAITS)


def test_what_is_not_there_yet_is_waited_for(kata, accelerator):
    group = FourRanks(accelerator)
    with debubble.record(accelerator) as timeline:
        with group.stream:
            busy(accelerator)
        values = run(kata, group, step=0).read().clone()
    expect(timeline).no_hazards(why=TOO_EARLY)
    expect_state(values, group, 0, likely=TOO_EARLY)


def test_what_is_there_is_read_without_waiting(kata, accelerator):
    pending = run(kata, FourRanks(accelerator), step=0)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        pending.read()
    expect(timeline).counts(host_syncs=0, why=DONE)


def test_steps_in_a_row_are_all_read_right(kata, accelerator):
    group = FourRanks(accelerator)
    with debubble.record(accelerator) as timeline:
        with group.stream:
            busy(accelerator)
        pending = [run(kata, group, step) for step in range(STEPS)]
    expect(timeline).no_hazards(why=ONE_BUFFER)
    for step, state in enumerate(pending):
        expect_state(state.read(), group, step, likely=ONE_BUFFER)


def test_it_does_not_wait_for_the_model(kata, accelerator):
    group = FourRanks(accelerator)
    with (
        debubble.record(accelerator) as timeline,
        closed_gate(accelerator, modelled_ms=0.5) as gate,
    ):
        values = run(kata, group, step=0).read().clone()
        still_busy = gate.closed
    waits = [event for event in timeline.events if event.kind == "sync"]
    expect(timeline).that(
        still_busy,
        expected="`read` to be over while the model's stream is still busy",
        did="waited until the model's stream had done everything",
        events=sorted(waits, key=lambda wait: -wait.duration)[:1],
        why=BEHIND_THE_MODEL,
    )
    expect(timeline).no_hazards(why=TOO_EARLY)
    expect_state(values, group, 0, likely=TOO_EARLY)


def test_nobody_waits_for_the_exchange_while_the_step_is_prepared(kata, accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory cannot be pinned on this machine, so every upload waits")
    group = FourRanks(accelerator)
    run(kata, group, step=0).read()
    with debubble.record(accelerator) as timeline:
        with group.stream:
            gate = closed_gate(accelerator, modelled_ms=20.0)
        with gate:
            run(kata, group, step=1)
            still_busy = gate.closed
    held = [event for event in timeline.events if not event.on_device]
    expect(timeline).that(
        still_busy,
        expected="`_run_ar` to return while the stream of the exchanges is still busy",
        did="waited until that stream had done everything",
        events=sorted(held, key=lambda event: -event.duration)[:1],
        why=WAITS,
    )


def common_steps(accelerator):
    said = FourRanks(accelerator, first=10**6).said
    return [Step(f"_run_ar in step {step}", (step,), said[step]) for step in range(6)]


def exchanges(kata, accelerator):
    """Returns a function that makes the exchange of a step, and returns what each rank said."""
    group = FourRanks(accelerator, first=10**6)
    others = list(group.others)

    def exchange(step):
        group.others[:] = others[step:]
        return run(kata, group, step).read()

    return exchange


COMMON = Common(make=exchanges, steps=common_steps, stale=ONE_BUFFER)
