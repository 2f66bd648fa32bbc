"""What holds for every site, whatever it computes: it never waits, and overlap never harms it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

import debubble
from solutions.common.read_back import ReadBack
from tests.gate import SHORT_MS, closed_gate

TRIES = 3
OVERLAPPED_CALLS = 64


def recorded(accelerator, call: Callable[[], Any]) -> debubble.Timeline:
    """What one call does after a first one has compiled and reserved what there is to."""
    call()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        call()
    assert not timeline.hazards
    return timeline


def counts_of(accelerator, call: Callable[[], Any]) -> dict[str, int]:
    """The counts of what is `recorded`."""
    return recorded(accelerator, call).counts()


def expect_no_wait_in(timeline: debubble.Timeline) -> None:
    """No host sync and no pageable copy; says which there are."""
    waits = [
        f"{event.name} at {event.start:.0f} us for {event.duration:.0f} us: {event.source}"
        for event in timeline.events
        if event.kind == "sync" or event.copy_kind == "h2d_pageable"
    ]
    assert not waits, "\n".join(waits)


def expect_no_wait(accelerator, call: Callable[[], Any], pinned_uploads: int = 1) -> None:
    """No host sync, no pageable copy, and at most so many pinned uploads, by two witnesses."""
    timeline = recorded(accelerator, call)
    expect_no_wait_in(timeline)
    counts = timeline.counts()
    if accelerator.pin_memory:
        assert counts["h2d_pinned"] <= pinned_uploads, counts
    with debubble.no_host_syncs():
        call()


def expect_host_returns(accelerator, call: Callable[[], Any]) -> None:
    """The host is done with a call before the device begins with what that call has queued.

    What happens to wait, such as an allocator that grows, doesn't count; a wait of the call's own
    comes back each time.
    """
    warm_up(accelerator, call)
    for _ in range(TRIES):
        with closed_gate(accelerator) as gate:
            call()
            if gate.closed:
                break
        accelerator.synchronize()
    else:
        raise AssertionError("the host waited for what was queued before the call")
    accelerator.synchronize()


def expect_host_waits(accelerator, call: Callable[[], Any]) -> None:
    """It comes back from a call only when what was queued before the call is done."""
    warm_up(accelerator, call)
    with closed_gate(accelerator, SHORT_MS) as gate:
        call()
        assert not gate.closed, "the host did not wait for what was queued before the call"
    accelerator.synchronize()


@contextmanager
def answers_in_time(accelerator) -> Iterator[None]:
    """Whoever reads in the block what the device was asked for finds it there. How soon it comes is
    no matter of the code's where others use the GPU too: behind their work it takes milliseconds,
    and then there is one wait more."""
    read = ReadBack.read

    def read_when_there(pending: ReadBack) -> torch.Tensor:
        while not (accelerator.modelled or pending.arrived.query()):
            time.sleep(1e-4)
        return read(pending)

    with mock.patch.object(ReadBack, "read", read_when_there):
        yield


def warm_up(accelerator, call: Callable[[], Any], times: int = 3) -> None:
    """Calls, each behind work that isn't done: what is compiled, loaded or pinned for that may make
    the host wait, the first time."""
    for _ in range(times):
        with closed_gate(accelerator, SHORT_MS):
            call()
        accelerator.synchronize()


def overlapped(
    accelerator,
    call: Callable[[Any], Any],
    inputs: Sequence[Any],
    load_ms: float = 20.0,
    warm_up: bool = True,
) -> list[Any]:
    """The results of one call for each input, all queued behind one kernel that is running.

    `call` must return device tensors that later calls leave alone (a clone of what is reused).
    Nothing is read before all is queued; no race may be found.
    """
    if warm_up:
        call(inputs[0])
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(load_ms)
        results = [call(values) for values in inputs]
        accelerator.synchronize()
    assert not timeline.hazards, timeline.hazards[0]
    return results
