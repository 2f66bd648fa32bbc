"""Tests of the kata `copy_beside_compute`."""

import itertools

import torch

import debubble
from debubble.workshop import expect, expect_equal

BATCHES = 12
ROWS, COLUMNS = 256, 1024  # 1 MiB of float32 a batch
# No two batches are alike, or memory that an earlier one has left could pass for a copy.
numbers = itertools.count(1)
ONE_STREAM = (
    "A stream does one thing after the other. While it copies it computes nothing, although "
    "copies have an engine of their own and need no part of the device that computes."
)
QUEUED_BEHIND = (
    "The copies are on another stream, but it waits for the computation before each of them, so "
    "nothing happens at the same time. A copy of new data need not wait for anything: only the "
    "kernel that reads the data has to wait, for the event recorded right after its copy."
)
ALL_AT_ONCE = (
    "A kernel reads one batch and has to wait for that one. Behind an event that was recorded "
    "after the last copy, all kernels wait for all copies, and while the link works the device "
    "does nothing. Record an event behind each copy, and let each kernel wait for its own."
)
TOO_EARLY = (
    "Streams do not wait for each other by themselves. The stream that computes has to wait for "
    "an event that was recorded on the copying stream, after the copy: not before it."
)


def double(batch):
    return batch * 2


def batches_for(accelerator, rows=ROWS):
    """[rows, COLUMNS] float32 in pinned host memory each."""
    return [
        torch.full((rows, COLUMNS), float(next(numbers)), pin_memory=accelerator.pin_memory)
        for _ in range(BATCHES)
    ]


def record_run(kata, accelerator):
    """What happened when all batches were queued behind a kernel that is still running."""
    batches = batches_for(accelerator)

    def compute(batch):
        accelerator.sleep(0.03)
        return double(batch)

    with debubble.record(accelerator) as timeline:
        # Long enough for a real host to queue everything; the modelled host needs less.
        accelerator.sleep(0.75 if accelerator.modelled else 20.0)
        kata.run_batches(batches, compute)
    return timeline


def copies_of(timeline):
    return [event for event in timeline.events if event.kind == "copy"]


def kernels_of(timeline):
    return [event for event in timeline.events if event.kind == "kernel"]


def expect_right_outputs(outputs, batches, likely=""):
    expect_equal(len(outputs), BATCHES, value=f"the number of outputs of {BATCHES} batches")
    for number, (output, batch) in enumerate(zip(outputs, batches, strict=True)):
        value = f"output {number} of run_batches({BATCHES} batches, double)"
        expect_equal(output, double(batch), value=value, likely=likely)


def test_the_outputs_are_right(kata, accelerator):
    batches = batches_for(accelerator)
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
        quoted=(),  # the lines are those of `compute`, above
        why="Only the copies belong inside `with copying:`. Whoever called run_batches goes on "
        "with the outputs on its own stream, and would not wait for another one.",
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
    copies, first = copies_of(timeline), kernels_of(timeline)[0]
    late = [copy for copy in copies if copy.start >= first.end]
    expect(timeline).that(
        not late,
        expected=f"all {len(copies)} copies to start while the kernel before them still runs",
        did=f"makes {len(late)} of them wait until it is over",
        events=late,
        why=ONE_STREAM if copies[0].lane == first.lane else QUEUED_BEHIND,
    )


def test_the_first_batch_is_computed_while_others_are_copied(kata, accelerator):
    # 8 MiB each, so that the link has work for longer than the host takes to queue it.
    batches = batches_for(accelerator, rows=8 * ROWS)
    kata.run_batches(batches[:1], double)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        kata.run_batches(batches, double)
    copies, first = copies_of(timeline), min(kernels_of(timeline), key=lambda event: event.start)
    expect(timeline).that(
        first.start < copies[-1].end,
        expected="the first batch to be computed while later ones are still on their way",
        did=f"computes nothing until all {len(copies)} copies are done",
        events=[*copies, first],
        why=ALL_AT_ONCE,
    )


def test_no_kernel_starts_before_its_batch_is_there(kata, accelerator, monkeypatch):
    new_stream = accelerator.stream

    def busy_stream():
        """A new stream that gets to its copies late: who does not wait for them is found out."""
        stream = new_stream()
        with stream:
            accelerator.sleep(0.1 if accelerator.modelled else 5.0)
        return stream

    monkeypatch.setattr(accelerator, "stream", busy_stream)
    batches = batches_for(accelerator)
    with debubble.record(accelerator) as timeline:
        outputs = kata.run_batches(batches, double)
    expect(timeline).no_hazards(why=TOO_EARLY)
    expect_right_outputs(outputs, batches, likely=TOO_EARLY)
