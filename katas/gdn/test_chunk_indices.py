"""Tests of the kata `chunk_indices`."""

from functools import partial

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    in_a_row,
    left_as_they_were,
    no_pinned_memory,
    python_instructions,
)

FEW, MANY = 16, 4096
STEPS, LONG_TABLE = 72, 1 << 12
ROUNDED = (
    "A last chunk that is not full is a chunk all the same: of 64 tokens at a time a sequence of "
    "64 has one, one of 65 has two, and one without tokens has none. Does `chunk_size` count, and "
    "not 64?"
)
COMPACTED = (
    "A sequence without tokens has no row, but it keeps its number: the next sequence is one "
    "further. Did you count where the second column is 0? `(chunk == 0).cumsum(0) - 1` knows only "
    "sequences that have a chunk, and gives the next sequence's tokens to the empty sequence. The "
    "number of a sequence is its place in `cu_seqlens`."
)
COUNTED = (
    "The first column is the number of the sequence, the second one that of the chunk in this "
    "sequence: it begins at 0 in each."
)
WAITS = (
    "Reading `cu_seqlens` waits until the device has done all that was queued before, and an "
    "upload from pageable memory waits once more, or copies first. The host has the same numbers "
    "in `cu_seqlens_cpu`. Upload from pinned memory, with non_blocking=True."
)
TOGETHER = (
    "Each copy costs time, its bytes cost little. Both columns are known at the same time: lay "
    "them side by side on the host, and copy that once."
)
LOOP = (
    "For 4096 sequences a loop in Python takes the host more than 2 ms, one of small `arange`s 6, "
    "and the device waits for its table meanwhile. It is a twentieth of a millisecond when a few "
    "calls do all sequences at once: `repeat_interleave`, `arange` and `cumsum`, on the host."
)
STALE = (
    "Did you keep the table of an earlier step? The engine writes each step's starts into the same "
    "tensors, so the same tensor does not mean the same sequences. Make the table again in each "
    "step: it is cheap now."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that a later step writes "
    "to again, be it the next one or the ninth, may bring the rows of the wrong step. Take fresh "
    "pinned memory in each: PyTorch keeps it until its copy is done."
)


def starts_of(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def arguments(accelerator, lengths):
    starts = starts_of(lengths)
    return starts.to(accelerator.device), starts


def rows_of(lengths, chunk_size=64):
    rows = [
        (sequence, chunk)
        for sequence, length in enumerate(lengths)
        for chunk, _ in enumerate(range(0, length, chunk_size))
    ]
    return torch.tensor(rows, dtype=torch.int32).view(-1, 2)


def likely_cause(actual, expected):
    if not isinstance(actual, torch.Tensor) or actual.shape != expected.shape:
        return ROUNDED
    return COUNTED if torch.equal(actual[:, 0].cpu(), expected[:, 0]) else COMPACTED


def expect_rows(table, lengths, chunk_size=64, where="", likely=likely_cause):
    value = f"the table of sequences of {lengths} tokens{where}, in chunks of {chunk_size},"
    right = rows_of(lengths, chunk_size)
    expect_equal(table, right, value=value, likely=likely, contiguous=True)


@pytest.mark.parametrize(
    "lengths",
    [[5], [64], [65], [63, 1], [128, 0, 128], [0, 130, 0, 0, 64, 0], [1] * 6, [0, 0], []],
    ids=str,
)
def test_each_chunk_has_its_row(kata, accelerator, lengths):
    expect_rows(kata.prepare_chunk_indices(*arguments(accelerator, lengths)), lengths)


@pytest.mark.parametrize("chunk_size", [16, 32, 128])
def test_chunks_may_be_of_another_size(kata, accelerator, chunk_size):
    lengths = [1, chunk_size - 1, chunk_size, chunk_size + 1, 0, 130]
    table = kata.prepare_chunk_indices(*arguments(accelerator, lengths), chunk_size)
    expect_rows(table, lengths, chunk_size)


def test_it_is_on_the_device(kata, accelerator):
    expect_equal(
        kata.prepare_chunk_indices(*arguments(accelerator, [65])).device.type,
        accelerator.device.type,
        value="the `device.type` of the table",
        likely="The kernels read the table: it has to be in the device's memory.",
    )


def record_call(kata, accelerator):
    """Records a call with four sequences, queued after a kernel of 50 microseconds."""
    kata.prepare_chunk_indices(*arguments(accelerator, [200, 1, 0, 64]))
    args = arguments(accelerator, [200, 1, 0, 64])
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.prepare_chunk_indices(*args)
    return timeline


def test_nobody_waits(kata, accelerator):
    timeline = record_call(kata, accelerator)
    expect(timeline).counts(host_syncs=0, d2h=0, why=WAITS)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=WAITS)


def test_the_table_is_sent_by_one_upload(kata, accelerator):
    timeline = record_call(kata, accelerator)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) <= 1,
        expected="1 upload for the whole table",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=TOGETHER,
    )


def test_python_does_not_count_the_sequences(kata, accelerator):
    calls = []
    for num_seqs in (FEW, MANY):
        args = arguments(accelerator, [1 + 64 * (sequence % 3) for sequence in range(num_seqs)])
        calls.append(partial(kata.prepare_chunk_indices, *args))
        calls[-1]()
    with debubble.record(accelerator) as timeline:
        few, many = map(python_instructions, calls)
    expect(timeline).that(
        many <= 2 * few,
        expected=f"as much Python for {MANY} sequences as for {FEW}",
        did=f"runs {few} instructions of Python for {FEW} sequences, and {many} for {MANY}",
        why=LOOP,
    )


def test_each_step_has_its_own_table(kata, accelerator):
    starts, starts_cpu = arguments(accelerator, [70, 130])
    for lengths in ([70, 130], [130, 70], [200, 0]):
        starts_cpu.copy_(starts_of(lengths))
        starts.copy_(starts_cpu)
        table = kata.prepare_chunk_indices(starts, starts_cpu)
        expect_rows(
            table, lengths, where=", in tensors that held another step before", likely=STALE
        )


def test_steps_that_follow_at_once_do_not_disturb_each_other(kata, accelerator):
    """Steps and tables are so large that a ring or an arena of pinned memory is full."""
    batches = [[64 * (1 + step), 64 * (LONG_TABLE - step)] for step in range(STEPS)]
    steps = [arguments(accelerator, lengths) for lengths in batches]
    alone = [kata.prepare_chunk_indices(*args).cpu() for args in steps]
    call = lambda step: kata.prepare_chunk_indices(*steps[step])
    tables, timeline = in_a_row(accelerator, call, STEPS)
    expect(timeline).no_hazards(why=REUSED)
    for number, table in enumerate(tables):
        value = f"the table of step {number}, of {STEPS} queued while a kernel was still running,"
        expect_equal(table, alone[number], value=value, likely=REUSED)


def test_it_works_where_nothing_can_be_pinned(kata, accelerator):
    with no_pinned_memory(accelerator):
        expect_rows(kata.prepare_chunk_indices(*arguments(accelerator, [65, 1])), [65, 1])


def test_its_arguments_stay_as_they_are(kata, accelerator):
    starts, starts_cpu = arguments(accelerator, [70, 130])
    with left_as_they_were(cu_seqlens=starts, cu_seqlens_cpu=starts_cpu):
        kata.prepare_chunk_indices(starts, starts_cpu)


def common_steps(accelerator):
    batches = (
        [200, 1, 0, 64],
        [5],
        [],
        [64 * 40_000 + 1, 3],
        [0, 0],
        [1] * 40,
        [65],
        [1, 0, 200, 64],
    )
    return [
        Step(
            f"prepare_chunk_indices of {lengths} tokens, in chunks of {size},",
            (*arguments(accelerator, lengths), size),
            rows_of(lengths, size),
        )
        for number, lengths in enumerate(batches)
        for size in [(64, 64, 64, 64, 16, 64, 32, 64)[number]]
    ]


COMMON = Common(
    make=lambda kata, accelerator: kata.prepare_chunk_indices,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", arguments(accelerator, [65] * n), None),
    stale="Each step has lengths of its own, and a table of its own.",
)
