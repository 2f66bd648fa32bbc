"""Tests of the kata `copy_beside_compute`."""

import itertools

import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    left_as_they_were,
)

BATCHES = 12
MANY = 100
"""More batches than any likely ring of buffers, taken in turn without a check, would have."""
ROWS, COLUMNS = 256, 1024  # 1 MiB of float32 a batch
# No two batches are alike, or memory left by an earlier batch could pass for a copy.
numbers = itertools.count(1)
ONE_STREAM = (
    "A stream does one thing after the other. While it copies it computes nothing, although "
    "copies have an engine of their own and need no part of the device that computes."
)
QUEUED_BEHIND = (
    "The copies are on another stream, but it waits for the computation of the batch before, so "
    "that batch and this one's copy never run side by side. A copy into memory that was allocated "
    "on its own stream, inside `with copying:`, need not wait for anything, and one into a buffer "
    "that is used again only for the kernel that last read that buffer. It is the kernel that has "
    "to wait, for the event recorded right after its copy."
)
ALL_AT_ONCE = (
    "A kernel reads one batch and has to wait only for that batch. If all kernels wait for an "
    "event that was recorded after the last copy, they wait for all copies, and while the link "
    "works the device does nothing. Record an event after each copy, and let each kernel wait for "
    "its own event."
)
TOO_EARLY = (
    "Streams do not wait for each other by themselves. The stream that computes has to wait for "
    "an event that was recorded on the copying stream, after the copy: not before it."
)
GIVEN_AWAY = (
    "The arrived batches lie in memory of the copying stream. When a batch's tensor is dropped, "
    "the copying stream may put its next batch there at once, although a kernel still has to read "
    "the memory. Keep the arrived batches in a list, and let the copying stream wait for the "
    "computing stream after the last batch: `copying.wait_stream(computing)`."
)


def double(batch):
    return batch * 2


def batches_for(accelerator, rows=ROWS, count=BATCHES):
    """Returns batches in pinned host memory, [rows, COLUMNS] float32 each."""
    return [
        torch.full((rows, COLUMNS), float(next(numbers)), pin_memory=accelerator.pin_memory)
        for _ in range(count)
    ]


def record_run(kata, accelerator):
    """Records all batches, queued while a kernel still runs."""
    batches = batches_for(accelerator)

    def compute(batch):
        accelerator.sleep(0.2)
        return double(batch)

    with debubble.record(accelerator) as timeline:
        # Lasts until a real host has queued everything; the modelled host needs less.
        accelerator.sleep(0.75 if accelerator.modelled else 20.0)
        kata.run_batches(batches, compute)
    return timeline


def keep_new_streams_busy(accelerator, monkeypatch, ms):
    """Makes each new stream begin with a kernel of `ms` milliseconds."""
    new_stream = accelerator.stream

    def busy_stream():
        stream = new_stream()
        with stream:
            accelerator.sleep(ms)
        return stream

    monkeypatch.setattr(accelerator, "stream", busy_stream)


def late_batch(batch, accelerator, ms):
    """Returns the same batch, but its copy starts after a kernel of `ms` milliseconds on its
    stream."""

    class LateBatch(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                if function in (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.copy_):
                    accelerator.sleep(ms)
                return function(*args, **(kwargs or {}))

    return batch.as_subclass(LateBatch)


def copies_of(timeline):
    return [event for event in timeline.events if event.kind == "copy"]


def kernels_of(timeline):
    return [event for event in timeline.events if event.kind == "kernel"]


def expect_right_outputs(outputs, batches, likely=""):
    count = len(batches)
    expect_equal(len(outputs), count, value=f"the number of outputs of {count} batches")
    for number, (output, batch) in enumerate(zip(outputs, batches, strict=True)):
        value = f"output {number} of run_batches({count} batches, double)"
        expect_equal(output, double(batch), value=value, likely=likely)


def test_the_outputs_are_right(kata, accelerator):
    batches = batches_for(accelerator)
    with left_as_they_were(batches=batches):
        outputs = kata.run_batches(batches, double)
    expect_right_outputs(outputs, batches)


def test_the_host_does_not_wait(kata, accelerator):
    timeline = record_run(kata, accelerator)
    expect(timeline).counts(
        host_syncs=0,
        why="Events order streams on the device. A host that waits for a stream can queue nothing "
        "in the meantime, and the device runs dry.",
    )


def test_copies_have_a_stream_of_their_own(kata, accelerator):
    timeline = record_run(kata, accelerator)
    copies, (first, *kernels) = copies_of(timeline), kernels_of(timeline)
    strays = [kernel for kernel in kernels if kernel.lane != first.lane]
    expect(timeline).that(
        not strays,
        expected=f"`compute` to run on {first.lane}, the stream that run_batches was called on",
        did=f"runs {len(strays)} kernels on {strays[0].lane}" if strays else "",
        events=strays,
        quoted=(),  # the lines are `compute`'s, above
        why="Only the copies belong inside `with copying:`. The caller of run_batches goes on with "
        "the outputs on its own stream, and would not wait for another stream.",
    )
    shared = [copy for copy in copies if copy.lane == first.lane]
    expect(timeline).that(
        not shared,
        expected="copies and kernels on two streams",
        did=f"has {len(shared)} copies on {first.lane}, with the kernels",
        events=shared,
        why=ONE_STREAM,
    )


def test_copies_do_not_wait_for_the_computation(kata, accelerator):
    timeline = record_run(kata, accelerator)
    copies, (first, *computing) = copies_of(timeline), kernels_of(timeline)
    # Each batch has two kernels: the sleep, and the doubling.
    late = [
        copy
        for copy, before in zip(copies, [first, *computing[1::2]], strict=False)
        if copy.start >= before.end
    ]
    expect(timeline).that(
        not late,
        expected=f"each of {len(copies)} copies to start while the batch before it is computed",
        did=f"makes {len(late)} of them wait until that is over",
        events=late,
        why=ONE_STREAM if copies[0].lane == first.lane else QUEUED_BEHIND,
    )


def test_the_first_batch_is_computed_while_others_are_copied(kata, accelerator):
    kata.run_batches(batches_for(accelerator, count=1), double)
    accelerator.synchronize()
    *batches, last = batches_for(accelerator)
    batches.append(late_batch(last, accelerator, 0.75 if accelerator.modelled else 200.0))
    with debubble.record(accelerator) as timeline:
        kata.run_batches(batches, double)
    computing = [kernel for kernel in kernels_of(timeline) if "sleep" not in kernel.name]
    copies, first = copies_of(timeline), min(computing, key=lambda event: event.start)
    expect(timeline).that(
        first.start < copies[-1].end,
        expected="the first batch to be computed while later ones are still on their way",
        did=f"computes nothing until all {len(copies)} copies are done",
        events=[*copies, first],
        why=ALL_AT_ONCE,
    )


def test_no_kernel_starts_before_its_batch_is_there(kata, accelerator, monkeypatch):
    # The copies are late, so that code that does not wait for them fails.
    keep_new_streams_busy(accelerator, monkeypatch, 0.1 if accelerator.modelled else 5.0)
    batches = batches_for(accelerator, rows=1, count=MANY)
    with debubble.record(accelerator) as timeline:
        outputs = kata.run_batches(batches, double)
    expect(timeline).no_hazards(why=TOO_EARLY)
    expect_right_outputs(outputs, batches, likely=TOO_EARLY)


def test_the_next_call_may_use_the_same_memory(kata, accelerator, monkeypatch):
    """A stream pool returns its streams in turn, so a later call can get the stream of an earlier
    one."""
    copying = accelerator.stream()
    monkeypatch.setattr(accelerator, "stream", lambda: copying)
    calls = [batches_for(accelerator, rows=1, count=4) for _ in range(2)]
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.75 if accelerator.modelled else 20.0)
        outputs = [kata.run_batches(batches, double) for batches in calls]
    expect(timeline).no_hazards(why=TOO_EARLY)
    for batches, doubled in zip(calls, outputs, strict=True):
        expect_right_outputs(doubled, batches, likely=GIVEN_AWAY)


def common_steps(accelerator):
    def step(name, *shapes):
        batches = [
            torch.full(shape, float(next(numbers)), pin_memory=accelerator.pin_memory)
            for shape in shapes
        ]
        return Step(f"run_batches({name}, double)", (batches, double), [*map(double, batches)])

    return [
        step("4 batches", *[(8, COLUMNS)] * 4),
        step("batches of 4, 64 and 1 rows", (4, 8), (64, 8), (1, 8)),
        step("batches of other dimensions", (3,), (2, 2, 2)),
        step("no batches"),
        step("1 batch", (8, COLUMNS)),
        step("1 other batch", (8, COLUMNS)),
    ]


COMMON = Common(
    make=lambda kata, accelerator: kata.run_batches,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (batches_for(accelerator, 1, n), double), None),
)
