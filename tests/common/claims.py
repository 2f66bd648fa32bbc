"""Claims about every site: it never waits, and overlap never harms it."""

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
    """Calls twice, and returns the timeline of the second call, since the first one compiles and
    reserves memory. Checks that there is no race."""
    call()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        call()
    assert not timeline.hazards
    return timeline


def counts_of(accelerator, call: Callable[[], Any]) -> dict[str, int]:
    """Returns the counts of a second call, since the first one compiles and reserves memory."""
    return recorded(accelerator, call).counts()


def expect_no_wait_in(timeline: debubble.Timeline) -> None:
    """Checks that the timeline has no host sync and no upload from pageable memory. The error names
    them."""
    waits = [
        f"{event.name} at {event.start:.0f} us for {event.duration:.0f} us: {event.source}"
        for event in timeline.events
        if event.kind == "sync" or event.copy_kind == "h2d_pageable"
    ]
    assert not waits, "\n".join(waits)


def expect_no_wait(accelerator, call: Callable[[], Any], pinned_uploads: int = 1) -> dict[str, int]:
    """Checks in two ways, by a recording and by a guard, that the host waits for nothing in a call;
    also that it has no upload from pageable memory and at most `pinned_uploads` pinned ones.
    Returns the call's counts."""
    timeline = recorded(accelerator, call)
    expect_no_wait_in(timeline)
    counts = timeline.counts()
    if accelerator.pin_memory:
        assert counts["h2d_pinned"] <= pinned_uploads, counts
    with debubble.no_host_syncs():
        call()
    return counts


def expect_host_returns(accelerator, call: Callable[[], Any]) -> None:
    """Checks that a call returns before the device begins with the call's work.

    A chance wait, such as an allocator that grows, doesn't count; a wait of the call itself occurs
    in every try.
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
    """Checks that a call returns only when all work that was queued before it is done (here for
    SHORT_MS)."""
    warm_up(accelerator, call)
    with closed_gate(accelerator, SHORT_MS) as gate:
        call()
        assert not gate.closed, "the host did not wait for what was queued before the call"
    accelerator.synchronize()


@contextmanager
def answers_in_time(accelerator) -> Iterator[None]:
    """Makes `ReadBack.read` in this block wait by polling until the result is there, so that it
    never counts as a wait. Its delay doesn't depend on the code if other processes use the GPU
    too."""
    read = ReadBack.read

    def read_when_there(pending: ReadBack) -> torch.Tensor:
        while not (accelerator.modelled or pending.arrived.query()):
            time.sleep(1e-4)
        return read(pending)

    with mock.patch.object(ReadBack, "read", read_when_there):
        yield


def captured(accelerator, call: Callable[[], Any], warm_up: bool = True) -> tuple[Any, Any]:
    """Returns (a graph of a call, the call's result), captured after a first call if `warm_up`."""
    if warm_up:
        call()
    graph = accelerator.graph()
    with graph.capture():
        result = call()
    return graph, result


def warm_up(accelerator, call: Callable[[], Any], times: int = 3) -> None:
    """Runs the call several times behind unfinished work, since it may make the host wait at first,
    by compiling, loading or pinning."""
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
    """Returns the results of one call for each input, all queued while one kernel runs.

    `call` must return device tensors that later calls leave alone (a clone of reused memory).
    Nothing is read before all calls are queued. Checks that there is no race.
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
