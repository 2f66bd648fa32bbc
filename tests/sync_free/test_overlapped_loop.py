"""The decode loop is right behind any queue, has two steps in flight, and waits once a step at
most."""

import pytest
import torch

import debubble
from solutions.sync_free.katas.before.overlapped_loop import DecodeLoop as RacingLoop
from solutions.sync_free.katas.overlapped_loop import STEPS_IN_FLIGHT, DecodeLoop
from tests.gate import LONG_MS, SHORT_MS, closed_gate

REQUESTS, VOCABULARY = 8, 50257


def next_tokens(tokens, positions):
    return (tokens * 31 + positions) % VOCABULARY


def positions_of_steps(steps, first=1):
    return [torch.arange(REQUESTS) + 100 * (first + step) for step in range(steps)]


def expected_tokens(steps):
    tokens, expected = torch.zeros(REQUESTS, dtype=torch.int64), []
    for positions in steps:
        tokens = next_tokens(tokens, positions)
        expected.append(tokens.tolist())
    return expected


def run(loop, steps):
    """Runs the loop for these steps, and returns the tokens of each. The positions are overwritten
    after each call, as a caller may do."""
    positions, returned = torch.zeros(REQUESTS, dtype=torch.int64), []
    for values in steps:
        positions.copy_(values)
        returned.append(loop.step(positions))
        positions.fill_(-1)
    assert returned[0] is None
    return [*returned[1:], loop.finish()]


def record_run(accelerator, make_loop, steps, decode=next_tokens, load_ms=20.0):
    # The first steps pin memory and load kernels, which may make all work wait.
    run(make_loop(decode, REQUESTS), positions_of_steps(4))
    loop = make_loop(decode, REQUESTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(load_ms)
        tokens = run(loop, steps)
    return tokens, timeline


@pytest.mark.parametrize("steps", [1, 2, 3, 64])
def test_every_token_is_right_behind_a_loaded_queue(accelerator, steps):
    steps = positions_of_steps(steps)
    tokens, timeline = record_run(accelerator, DecodeLoop, steps)
    assert tokens == expected_tokens(steps)
    assert not timeline.hazards


def test_without_a_step_there_are_no_tokens(accelerator):
    assert DecodeLoop(next_tokens, REQUESTS).finish() is None


def test_the_last_tokens_may_be_asked_for_again(accelerator):
    loop, steps = DecodeLoop(next_tokens, REQUESTS), positions_of_steps(4)
    assert run(loop, steps[:2]) == expected_tokens(steps)[:2]
    assert loop.finish() == expected_tokens(steps)[1]
    assert [loop.step(steps[2]), loop.step(steps[3])] == expected_tokens(steps)[1:3]


def test_one_pinned_upload_and_one_download_a_step(accelerator):
    _, timeline = record_run(accelerator, DecodeLoop, positions_of_steps(10))
    counts = timeline.counts()
    assert counts["d2h"] == 10
    assert counts["host_syncs"] <= 10
    if accelerator.pin_memory:
        assert (counts["h2d_pinned"], counts["h2d_pageable"]) == (10, 0)


def test_a_host_that_comes_late_never_waits(accelerator):
    loop = DecodeLoop(next_tokens, REQUESTS)
    for positions in positions_of_steps(6):
        with debubble.no_host_syncs():
            loop.step(positions)
        accelerator.synchronize()
    with debubble.no_host_syncs():
        loop.finish()


def test_the_host_is_one_step_ahead_and_never_more(accelerator):
    done = []

    def decode(tokens, positions):
        if len(done) >= STEPS_IN_FLIGHT:
            assert done[-STEPS_IN_FLIGHT].query()
        tokens = next_tokens(tokens, positions)
        # The gate is never opened: a loop that doesn't wait for this step runs far ahead of
        # it.
        done.append(closed_gate(accelerator, SHORT_MS).passed)
        return tokens

    loop = DecodeLoop(decode, REQUESTS)
    for positions in positions_of_steps(5):
        loop.step(positions)
    loop.finish()
    assert done[-1].query()


def test_the_hosts_own_work_is_done_while_a_step_is_under_way(accelerator):
    gates = []

    def decode(tokens, positions):
        gates.append(closed_gate(accelerator, SHORT_MS if len(gates) < 4 else LONG_MS))
        return next_tokens(tokens, positions)

    # The first steps pin memory and load kernels, which may make all work wait.
    run(DecodeLoop(decode, REQUESTS), positions_of_steps(4))
    loop, steps, returned = DecodeLoop(decode, REQUESTS), positions_of_steps(20), []
    for positions in steps:
        returned.append(loop.step(positions))
        # The caller has the tokens of the step before here, and can hide its work on them.
        assert gates[-1].closed, "the host waited for the step that it had queued"
        gates[-1].open()
    assert [*returned[1:], loop.finish()] == expected_tokens(steps)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (lambda device: torch.arange(3), r"positions of shape \[3\]: this loop has 8 requests"),
        (lambda device: torch.arange(REQUESTS).to(device), "positions is on .*give it on the host"),
        (lambda device: torch.zeros(REQUESTS), "positions is float32 .*must be integers"),
    ],
    ids=["of three requests", "on the device", "floats"],
)
def test_positions_that_no_step_can_take_are_refused(accelerator, positions, message):
    loop = DecodeLoop(next_tokens, REQUESTS)
    given = positions(accelerator.device)
    accelerator.synchronize()
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(ValueError, match=message),
    ):
        loop.step(given)
    assert not any(timeline.counts().values())
    assert loop.finish() is None


def test_before_is_right_while_everybody_waits(accelerator):
    def decode(tokens, positions):
        tokens = next_tokens(tokens, positions)
        accelerator.synchronize()
        return tokens

    loop, steps, returned = RacingLoop(decode, REQUESTS), positions_of_steps(6), []
    for positions in steps:
        returned.append(loop.step(positions))
        accelerator.synchronize()
    assert [*returned[1:], loop.finish()] == expected_tokens(steps)


def test_before_never_waits_and_returns_garbage(accelerator):
    # The positions differ from other tests': memory left by a test must not look right.
    steps = positions_of_steps(10, first=1000)
    with closed_gate(accelerator, SHORT_MS):  # Makes memory for all steps in flight.
        run(RacingLoop(next_tokens, REQUESTS), positions_of_steps(10, first=2000))
    loop = RacingLoop(next_tokens, REQUESTS)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, closed_gate(accelerator) as gate:
        tokens = run(loop, steps)
        assert gate.closed
    assert timeline.counts()["host_syncs"] == 0
    assert tokens != expected_tokens(steps)


@pytest.mark.sim
def test_before_has_four_races_and_sim_names_both_lines_of_each(accelerator):
    _, timeline = record_run(accelerator, RacingLoop, positions_of_steps(10))
    upload = "uploaded = self.staged.to(self.tokens.device, non_blocking=True)"
    download = 'self.on_host = self.tokens.to("cpu", non_blocking=True)'
    kernel = "return (tokens * 31 + positions) % VOCABULARY"
    read = "return None if self.on_host is None else self.on_host.tolist()"
    found = {(hazard.kind, hazard.first.text, hazard.second.text) for hazard in timeline.hazards}
    assert found == {
        ("memory_reused", download, upload),
        ("overwritten_in_flight", upload, "self.staged.copy_(positions)"),
        ("unordered_streams", kernel, download),
        ("read_before_sync", download, read),
    }


@pytest.mark.sim
def test_the_device_hardly_idles_while_the_host_reads_tokens(accelerator):
    def decode(tokens, positions):
        accelerator.sleep(0.1)
        return next_tokens(tokens, positions)

    _, timeline = record_run(accelerator, DecodeLoop, positions_of_steps(20), decode, load_ms=0.1)
    assert timeline.idle_share(ignore_sleep=True) < 0.1
