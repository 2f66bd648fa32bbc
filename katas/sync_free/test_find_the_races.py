"""Tests of the kata `find_the_races`."""

import itertools
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    closed_gate,
    expect,
    expect_equal,
    no_pinned_memory,
)

REQUESTS, STEPS, VOCABULARY = 4, 6, 50257
# No two steps are alike, or memory left by an earlier test could pass for a result.
numbers = itertools.count(1)

OVERWRITTEN = (
    "The race of the upload. A queued copy reads its pinned buffer when its turn comes, and by "
    "then the next step has written its own positions there. Give the steps in flight a buffer "
    "each, and write to one again only when the copy from it is done: an event recorded right "
    "after the copy tells."
)
TOO_SOON = (
    "The race of the download. `non_blocking=True` also means that `copy_` and `to` return before "
    "the tokens have arrived: until then the buffer holds its old values. Record an event right "
    "after the copy, on its stream, and let the host wait for that event before it reads."
)
UNORDERED = (
    "The race of the streams. Two streams wait for each other only if they are told to, and the "
    "copying stream was not told: it copies `tokens` while `decode` has not written them yet. Let "
    "it wait for the stream that `decode` was queued on, each time before it copies."
)
NOTHING_LEFT = (
    "When the host comes back the device has nothing left to do, and idles until the next step is "
    "queued. Queue the step first, and then wait for one thing only: that the tokens of the step "
    "*before* have arrived."
)
ONE_WAIT = (
    "One wait in each step is enough: for the download of the step before. All work that was "
    "queued before that download is done as well by then. So with two staging buffers, used in "
    "turn, the next buffer is free, and `event.query()` says so without a wait."
)
BESIDE = (
    "A step reads the tokens where they are, on the device: it has no need of their copy on the "
    "host. So the copying stream waits for the computing one, and never the other way round."
)


def positions_of_steps(steps):
    """Returns [REQUESTS] int64 for each step; no two steps have the same values."""
    return [torch.arange(REQUESTS) + 1000 * next(numbers) for _ in range(steps)]


def next_tokens(tokens, positions):
    """Stands for the model and the sampler."""
    return (tokens * 31 + positions) % VOCABULARY


def expected_tokens(steps):
    tokens, expected = torch.zeros(REQUESTS, dtype=torch.int64), []
    for positions in steps:
        tokens = next_tokens(tokens, positions)
        expected.append(tokens.tolist())
    return expected


def run(loop, steps, between=lambda: None):
    """Returns what the loop returned for each step. The caller's one tensor changes after each
    call."""
    positions, returned = torch.zeros(REQUESTS, dtype=torch.int64), []
    for values in steps:
        positions.copy_(values)
        returned.append(loop.step(positions))
        positions.fill_(-1)
        between()
    return [*returned[1:], loop.finish()]


def warm_up(kata, accelerator):
    """Runs the first steps of a process, which pin memory and load kernels. The driver may make the
    device wait for that, and then no race would show."""
    run(kata.DecodeLoop(next_tokens, REQUESTS), positions_of_steps(STEPS))
    accelerator.synchronize()


def expect_tokens(returned, steps, likely):
    for number, tokens in enumerate(expected_tokens(steps)):
        value = f"the tokens of step {number}, which step {number + 1} returns,"
        if number == len(steps) - 1:
            value = f"the tokens of step {number}, the last one, which finish() returns,"
        expect_equal(returned[number], tokens, value=value, likely=likely)


def only(timeline, kind):
    """Returns the recording with one kind of race only, since a test is about one kind."""
    return replace(timeline, hazards=[h for h in timeline.hazards if h.kind == kind])


@pytest.fixture
def load(accelerator):
    """Returns the milliseconds in which a real host queues several steps; the modelled host needs
    less."""
    return 0.4 if accelerator.modelled else 20.0


@pytest.fixture
def pinning(accelerator):
    if not accelerator.pin_memory:
        pytest.skip("a download to memory that is not pinned always holds the host")


@pytest.fixture
def late_copies(accelerator, load, monkeypatch):
    """Keeps new streams busy at first, so that code that does not wait for them fails."""
    new_stream = accelerator.stream

    def busy_stream():
        stream = new_stream()
        with stream:
            accelerator.sleep(2 * load)
        return stream

    monkeypatch.setattr(accelerator, "stream", busy_stream)


def test_it_is_right_while_everybody_waits(kata, accelerator):
    def decode(tokens, positions):
        tokens = next_tokens(tokens, positions)
        accelerator.synchronize()
        return tokens

    likely = (
        "Nothing can race here, since the device is done before the host goes on. Does step() "
        "return the tokens of the step before it, and None the first time?"
    )
    for platform in (nullcontext(), no_pinned_memory(accelerator)):
        steps = positions_of_steps(STEPS)
        with platform:
            loop = kata.DecodeLoop(decode, REQUESTS)
            returned = run(loop, steps, between=accelerator.synchronize)
        expect_tokens(returned, steps, likely)
    expect_equal(kata.DecodeLoop(next_tokens, REQUESTS).finish(), None, call="finish() at once")


def test_each_step_gets_its_own_positions(kata, accelerator, load):
    arrived = []

    def decode(tokens, positions):
        arrived.append(positions.clone())
        return next_tokens(tokens, positions)

    steps = positions_of_steps(STEPS)
    warm_up(kata, accelerator)
    loop = kata.DecodeLoop(decode, REQUESTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(load)
        run(loop, steps)
    expect(only(timeline, "overwritten_in_flight")).no_hazards(why=OVERWRITTEN)
    for number, (positions, sent) in enumerate(zip(arrived, steps, strict=True)):
        value = f"the positions that reach `decode` in step {number}"
        expect_equal(positions, sent, value=value, likely=OVERWRITTEN)


def test_tokens_are_copied_once_they_are_written(kata, accelerator, load):
    def decode(tokens, positions):
        accelerator.sleep(load)
        return next_tokens(tokens, positions)

    steps = positions_of_steps(STEPS)
    warm_up(kata, accelerator)
    loop = kata.DecodeLoop(decode, REQUESTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        returned = run(loop, steps, between=accelerator.synchronize)
    expect(only(timeline, "unordered_streams")).no_hazards(why=UNORDERED)
    expect_tokens(returned, steps, UNORDERED)


def test_tokens_are_read_once_they_have_arrived(kata, accelerator, late_copies):
    def decode(tokens, positions):
        tokens = next_tokens(tokens, positions)
        accelerator.current_stream().synchronize()
        return tokens

    steps = positions_of_steps(STEPS)
    warm_up(kata, accelerator)
    with debubble.record(accelerator) as timeline:
        loop = kata.DecodeLoop(decode, REQUESTS)
        returned = run(loop, steps)
    expect(only(timeline, "read_before_sync")).no_hazards(why=TOO_SOON)
    expect_tokens(returned, steps, TOO_SOON)


def test_it_is_right_when_nobody_waits(kata, accelerator, load):
    steps = positions_of_steps(2 * STEPS)
    warm_up(kata, accelerator)
    loop = kata.DecodeLoop(next_tokens, REQUESTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(load)
        returned = run(loop, steps)
    why = "Here all three races meet a busy device, as in an engine. Find one race at a time."
    expect(timeline).no_hazards(why=why)
    expect_tokens(returned, steps, why)


def test_the_device_has_a_step_to_do_when_step_returns(kata, accelerator, load, pinning):
    ends = []

    def decode(tokens, positions):
        tokens = next_tokens(tokens, positions)
        if ends:
            ends[-1].open()
        ends.append(closed_gate(accelerator, modelled_ms=load))
        return tokens

    warm_up(kata, accelerator)
    loop = kata.DecodeLoop(decode, REQUESTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        idle = []
        for number, positions in enumerate(positions_of_steps(3)):
            loop.step(positions)
            if not ends[-1].closed:
                idle.append(number)
        ends[-1].open()
    longest_call = max(
        (event for event in timeline.events if not event.on_device),
        key=lambda event: event.duration,
    )
    expect(timeline).that(
        not idle,
        expected="the device to be busy with a step when step() returns",
        did=f"waited until step {idle[0]} was done, before it returned from it" if idle else "",
        events=[longest_call],
        why=NOTHING_LEFT,
    )


def test_it_waits_once_a_step_at_most(kata, accelerator, load):
    def decode(tokens, positions):
        tokens = next_tokens(tokens, positions)
        accelerator.sleep(load / 4)
        return tokens

    warm_up(kata, accelerator)
    loop = kata.DecodeLoop(decode, REQUESTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(load)  # The first upload is not done when the second step begins.
        run(loop, positions_of_steps(STEPS))
    expect(timeline).at_most(host_syncs=STEPS, why=ONE_WAIT)


def record_with_a_late_stream(kata, accelerator, load, monkeypatch, late):
    """Records two steps. The new stream with the number `late` starts its work late."""
    numbers, new_stream = itertools.count(), accelerator.stream

    def stream():
        made = new_stream()
        if next(numbers) == late:
            with made:
                accelerator.sleep(2 * load)
        return made

    with monkeypatch.context() as patched, debubble.record(accelerator) as timeline:
        patched.setattr(accelerator, "stream", stream)
        loop = kata.DecodeLoop(next_tokens, REQUESTS)
        run(loop, positions_of_steps(2))
    return timeline


def test_no_step_waits_for_the_copy_of_its_tokens(kata, accelerator, load, monkeypatch, pinning):
    warm_up(kata, accelerator)
    # The late stream is the one that copies the tokens, not one of the uploads.
    for late in range(3):
        timeline = record_with_a_late_stream(kata, accelerator, load, monkeypatch, late)
        copies = [event for event in timeline.events if event.copy_kind == "d2h"]
        sleeps = [e for e in timeline.events if e.kind == "kernel" and "sleep" in e.name]
        if not sleeps or sleeps[0].lane == copies[0].lane:
            break
    kernels = [e for e in timeline.events if e.kind == "kernel" and "sleep" not in e.name]
    shared = [copy for copy in copies if copy.lane == kernels[0].lane]
    expect(timeline).that(
        not shared,
        expected="the tokens to be copied on a stream of their own",
        did=f"copies them on {kernels[0].lane}, between the kernels of two steps",
        events=shared,
        why="A stream does one thing after the other: while it copies it computes nothing.",
    )
    late = [kernel for kernel in kernels if kernel.start >= copies[0].start]
    expect(timeline).that(
        not late,
        expected="the kernels of step 1 to run although the tokens of step 0 are not copied yet",
        did="makes them wait for that copy",
        events=[*copies[:1], *late],
        quoted=copies[:1],
        why=BESIDE,
    )


def common_steps(accelerator):
    sizes = (3, 2**40, 0, -5, 7)
    steps = [torch.arange(REQUESTS) + size for size in sizes]
    given = [*steps, None]
    return [
        Step("finish()" if values is None else f"step {number}", (values,), right)
        for number, (values, right) in enumerate(
            zip(given, [None, *expected_tokens(steps)], strict=True)
        )
    ]


def steps_of_a_loop(kata, accelerator):
    """Returns a function that makes a step; after the last one it calls `finish`."""

    def decode(tokens, positions):
        accelerator.sleep(1.0)
        tokens = next_tokens(tokens, positions)
        accelerator.sleep(1.0)
        return tokens

    loop = kata.DecodeLoop(decode, REQUESTS)
    return lambda positions: loop.finish() if positions is None else loop.step(positions)


COMMON = Common(make=steps_of_a_loop, steps=common_steps, in_order=True, stale=TOO_SOON)
