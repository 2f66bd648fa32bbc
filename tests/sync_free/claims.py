"""What holds for every site, whatever it computes: it never waits, and overlap never harms it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import debubble

QUEUED_MS = 50.0
HOST_MS = 2.0
"""A host that waits sits out QUEUED_MS; one that does not is done in a fraction of this."""
MANY_REQUESTS_MS = 10.0
"""The same where the host has to look at thousands of Python lists."""
OVERLAPPED_CALLS = 64


def counts_of(accelerator, call: Callable[[], Any]) -> dict[str, int]:
    """What one call does after a first one has compiled and reserved what there is to."""
    call()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        call()
    assert not timeline.hazards
    return timeline.counts()


def expect_no_wait(accelerator, call: Callable[[], Any], pinned_uploads: int = 1) -> None:
    """No host sync, no pageable copy, and at most so many pinned uploads, by two witnesses."""
    counts = counts_of(accelerator, call)
    assert counts["host_syncs"] == counts["h2d_pageable"] == 0, counts
    if accelerator.pin_memory:
        assert counts["h2d_pinned"] <= pinned_uploads, counts
    with debubble.no_host_syncs():
        call()


def expect_host_returns(accelerator, call: Callable[[], Any], within_ms: float = HOST_MS) -> None:
    """Behind QUEUED_MS of queued work the host is done soon. Needs a real clock."""
    took = host_milliseconds(accelerator, call)
    assert took < within_ms, f"the host took {took:.2f} ms, behind {QUEUED_MS} ms of queued work"


def host_milliseconds(accelerator, call: Callable[[], Any]) -> float:
    """Until the host goes on, at best: a busy machine may hold it up, a wait always does."""
    for _ in range(3):
        call()
    accelerator.synchronize()
    took = []
    for _ in range(5):
        accelerator.sleep(QUEUED_MS)
        started = time.perf_counter()
        call()
        took.append((time.perf_counter() - started) * 1e3)
        accelerator.synchronize()
    return min(took)


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
