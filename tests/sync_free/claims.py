"""What holds for every site, whatever it computes: it never waits, and overlap never harms it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import debubble
from tests.gate import SHORT_MS, closed_gate

TRIES = 3
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
