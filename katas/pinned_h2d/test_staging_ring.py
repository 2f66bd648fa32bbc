"""Tests of the kata `staging_ring`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    closed_gate,
    expect,
    expect_equal,
    in_a_row,
    pinned_memory,
)

SHAPE = (16, 2)
OVERWRITTEN = (
    "A queued copy reads its buffer when its turn comes, which may be much later. A write to the "
    "buffer before that changes what arrives. Wait for the event that was recorded right after the "
    "copy, each time before you write."
)
WAITS = (
    "While there is a free buffer, there is nothing to wait for: the copy can be queued, and the "
    "host can go on with the next launch."
)
DONE = (
    "The copy was done long ago. Even a wait for a finished copy is a call into the driver, and it "
    "shows as a host sync. Call `event.query()` first."
)
TOO_MUCH = (
    "Only one copy has to be done: the copy that reads the buffer you need. A wait for the whole "
    "stream is a wait for all work that is queued after that copy, and then the device has nothing "
    "left to do: a bubble."
)
PINNED_ONCE = (
    "Pinning asks the operating system, and now and then takes milliseconds. That is why the ring "
    "exists: pin `depth` buffers in `__init__`, and use them again. When all of them are busy, "
    "wait for the next one."
)
FEWER = (
    "The rows of `values` go to the first rows of a buffer, and only these rows are copied: cut "
    "the buffer to `len(values)` rows for this upload."
)
ITS_DTYPE = (
    "The buffers have to be of the ring's `dtype`. Without one PyTorch makes float32, which holds "
    "integers up to 2**24 exactly, and rounds those above."
)


def values_of(number):
    return torch.full(SHAPE, number, dtype=torch.int32)


def target_on(accelerator):
    return torch.zeros(SHAPE, dtype=torch.int32, device=accelerator.device)


def record_uploads(kata, accelerator, depth, uploads):
    """Records uploads of the values 1, 2, 3, ... to a tensor each, while a kernel still runs."""
    ring = kata.StagingRing(SHAPE, torch.int32, depth)

    def upload(number):
        target = target_on(accelerator)
        ring.upload(values_of(number + 1), target)
        return target

    return in_a_row(accelerator, upload, uploads)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_all_values_arrive(kata, accelerator, depth):
    read, timeline = record_uploads(kata, accelerator, depth, uploads=100)
    expect(timeline).no_hazards(why=OVERWRITTEN)
    for number, target in enumerate(read, start=1):
        value = f"what arrived of upload {number} of 100, through a ring of depth {depth},"
        expect_equal(target, values_of(number), value=value, likely=OVERWRITTEN)


@pytest.mark.parametrize("rows", [1, 3])
def test_there_may_be_fewer_rows(kata, accelerator, rows):
    ring, values = kata.StagingRing(SHAPE, torch.int32, 2), values_of(5)[:rows]
    target = torch.zeros_like(values, device=accelerator.device)
    ring.upload(values_of(4), target_on(accelerator))
    call = f"upload(values, target) with {rows} of a ring's {SHAPE[0]} rows"
    try:
        ring.upload(values, target)
    except RuntimeError as error:
        error.add_note(f"It came from {call}. {FEWER}")
        raise
    expect_equal(target, values, value=f"what arrived of {call}", likely=FEWER)


def test_all_digits_arrive(kata, accelerator):
    ring, target = kata.StagingRing(SHAPE, torch.int32, 2), target_on(accelerator)
    values = values_of(2**24 + 1)
    ring.upload(values, target)
    value = "what arrived of upload(values, target), with values of 2**24 + 1,"
    expect_equal(target, values, value=value, likely=ITS_DTYPE)


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
        "with the kernel after it",
        did="waited until the device had done everything",
        events=sorted(waits, key=lambda wait: -wait.duration)[:1],
        why=TOO_MUCH,
    )


def test_all_pinned_memory_is_made_at_the_start(kata, accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory can't be pinned here")
    values, target = values_of(1), target_on(accelerator)
    with pinned_memory() as at_the_start:
        ring = kata.StagingRing(SHAPE, torch.int32, 2)
    with pinned_memory() as later, debubble.record(accelerator) as timeline:
        # All buffers are busy when the third upload begins.
        accelerator.sleep(1.0)
        for _ in range(4):
            ring.upload(values, target)
    expect(timeline).that(
        not later,
        expected="all pinned memory to be made in `__init__`",
        did=f"pinned memory {len(later)} times in 4 uploads",
        why=PINNED_ONCE,
    )
    nbytes = sum(memory.nbytes for memory in at_the_start)
    expect(timeline).that(
        nbytes <= 2 * values.nbytes,
        expected=f"a ring of depth 2 to pin 2 buffers of {list(SHAPE)} int32, {2 * values.nbytes} "
        "bytes",
        did=f"pinned {nbytes} bytes in `__init__`",
        why="`depth` buffers of `shape` and `dtype`, and no more: pinned memory is dear.",
    )


def common_steps(accelerator):
    def step(rows, number):
        values = torch.arange(number, number + 2 * rows, dtype=torch.int32).view(rows, 2)
        return Step(f"upload({rows} rows from {number} on, target)", (values,), values.clone())

    return [step(16, 100), step(3, 2**30), step(0, 0), step(1, -7), step(16, 2**24)]


def upload_of(kata, accelerator, depth=2):
    """Returns a function that uploads values, and returns what arrived."""
    ring = kata.StagingRing(SHAPE, torch.int32, depth)

    def upload(values):
        target = torch.zeros_like(values, device=accelerator.device)
        ring.upload(values, target)
        return target

    return upload


COMMON = Common(
    make=upload_of,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (torch.ones(n // 16, 2, dtype=torch.int32),), None),
)
