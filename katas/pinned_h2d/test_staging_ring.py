"""Tests of the kata `staging_ring`."""

import pytest
import torch

import debubble
from debubble.workshop import closed_gate, expect, expect_equal

SHAPE = (16, 2)
OVERWRITTEN = (
    "A queued copy reads its buffer when its turn comes, which may be much later. Whoever writes "
    "to the buffer before that changes what arrives. Wait for the event that was recorded right "
    "after the copy, each time before you write."
)
WAITS = (
    "While there is a free buffer, there is nothing to wait for: the copy can be queued, and the "
    "host can go on with the next launch."
)
DONE = (
    "The copy was done long ago. Even to wait for what is done is a call into the driver, and it "
    "shows as a host sync. Ask `event.query()` first."
)
TOO_MUCH = (
    "Only the one copy has to be done that reads the buffer you need. Whoever waits for the whole "
    "stream waits for all work that is queued behind that copy, and then the device has nothing "
    "left to do: a bubble."
)
PINNED_ONCE = (
    "Pinning asks the operating system, and now and then takes milliseconds. That is why the ring "
    "exists: pin `depth` buffers in `__init__`, and use them again."
)


def values_of(number):
    return torch.full(SHAPE, number, dtype=torch.int32)


def target_on(accelerator):
    return torch.zeros(SHAPE, dtype=torch.int32, device=accelerator.device)


def record_uploads(kata, accelerator, depth, uploads):
    """The values 1, 2, 3, ... to a tensor each, behind a kernel that is still running."""
    ring = kata.StagingRing(SHAPE, torch.int32, depth)
    targets = [target_on(accelerator) for _ in range(uploads)]
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        # Long enough for a real host to queue everything; the modelled host needs less.
        accelerator.sleep(0.2 if accelerator.modelled else 20.0)
        for number, target in enumerate(targets, start=1):
            ring.upload(values_of(number), target)
    return targets, timeline


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_all_values_arrive(kata, accelerator, depth):
    targets, timeline = record_uploads(kata, accelerator, depth, uploads=7)
    expect(timeline).no_hazards(why=OVERWRITTEN)
    expect_equal(
        [target[0, 0].item() for target in targets],
        [1, 2, 3, 4, 5, 6, 7],
        value=f"what arrived of 1 to 7, uploaded through a ring of depth {depth},",
        likely=OVERWRITTEN,
    )


def test_the_caller_may_change_the_values_at_once(kata, accelerator):
    ring = kata.StagingRing(SHAPE, torch.int32, 2)
    values, target = values_of(5), target_on(accelerator)
    accelerator.sleep(2.0)
    ring.upload(values, target)
    values.zero_()
    expect_equal(
        target,
        values_of(5),
        value="what arrived of upload(values, target), with `values` changed right after it,",
        likely="The copy has to read the ring's own buffer, not the caller's tensor.",
    )


def test_nobody_waits_while_there_are_free_buffers(kata, accelerator):
    _, timeline = record_uploads(kata, accelerator, depth=3, uploads=3)
    expect(timeline).counts(host_syncs=0, why=WAITS)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pinned=3, h2d_pageable=0, why=WAITS)


def test_a_buffer_whose_copy_is_done_is_free(kata, accelerator):
    ring, target = kata.StagingRing(SHAPE, torch.int32, 1), target_on(accelerator)
    ring.upload(values_of(1), target)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        ring.upload(values_of(2), target)
    expect(timeline).counts(host_syncs=0, why=DONE)


def test_it_waits_for_one_copy_and_for_nothing_behind_it(kata, accelerator):
    ring, target = kata.StagingRing(SHAPE, torch.int32, 2), target_on(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(5.0)
        ring.upload(values_of(1), target)
        with closed_gate(accelerator, modelled_ms=50.0) as gate:
            ring.upload(values_of(2), target)
            ring.upload(values_of(3), target)
            still_busy = gate.closed
    waits = [event for event in timeline.events if event.kind == "sync"]
    expect(timeline).that(
        still_busy,
        expected="the third upload to wait for the first copy alone, and to leave the device busy "
        "with the kernel behind it",
        did="waited until the device had done everything",
        events=sorted(waits, key=lambda wait: -wait.duration)[:1],
        why=TOO_MUCH,
    )


def test_all_pinned_memory_is_made_at_the_start(kata, accelerator, monkeypatch):
    ring, target = kata.StagingRing(SHAPE, torch.int32, 2), target_on(accelerator)
    pinned = []

    def noting(make, name):
        def made(*args, **kwargs):
            if kwargs.get("pin_memory") or name == "pin_memory":
                pinned.append(name)
            return make(*args, **kwargs)

        return made

    for name in ("empty", "empty_like", "zeros", "zeros_like", "full", "tensor"):
        monkeypatch.setattr(torch, name, noting(getattr(torch, name), name))
    monkeypatch.setattr(torch.Tensor, "pin_memory", noting(torch.Tensor.pin_memory, "pin_memory"))
    values = values_of(1)
    with debubble.record(accelerator) as timeline:
        for _ in range(4):
            ring.upload(values, target)
    expect(timeline).that(
        not pinned,
        expected="all pinned memory to be made in `__init__`",
        did=f"pinned memory {len(pinned)} times in 4 uploads",
        why=PINNED_ONCE,
    )
