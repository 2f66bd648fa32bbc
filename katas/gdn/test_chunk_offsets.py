"""Tests of the kata `chunk_offsets`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    left_as_they_were,
)

FEW, MANY = 4, 64
LENGTH = (
    "There is a number for each sequence and one more. Before the first sequence there are 0 "
    "chunks, and the number after the last sequence is that of all chunks."
)
ROUNDED = (
    "Each sequence begins a chunk of its own, and a last chunk that is not full is a chunk all the "
    "same. So lengths are rounded up, each by itself, by `chunk_size`, and then added; the starts "
    "of the sequences are no multiples of it."
)
TRAVELS = (
    "`cu_seqlens` is on the device, and the offsets are needed there. A number that the host puts "
    "into a tensor on the device is an upload: `torch.tensor([0], device=...)` waits for it, and "
    "pinned memory saves the wait but not the copy. The device can write a zero by itself."
)
STALE = (
    "Did you keep the offsets of an earlier step? The engine writes each step's starts into the "
    "same tensor, so the same tensor does not mean the same sequences. Make the offsets again in "
    "each step: it is a few launches."
)
ONE_BY_ONE = (
    "A launch takes the host a few microseconds, however little it computes. `cumsum` adds up all "
    "sequences by one."
)


def on_device(accelerator, lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int().to(accelerator.device)


def offsets_of(lengths, chunk_size=64):
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + len(range(0, length, chunk_size)))
    return torch.tensor(offsets)


def likely_cause(actual, expected):
    same_shape = isinstance(actual, torch.Tensor) and actual.shape == expected.shape
    return ROUNDED if same_shape else LENGTH


def expect_offsets(kata, accelerator, lengths, chunk_size=64):
    expect_equal(
        kata.prepare_chunk_offsets(on_device(accelerator, lengths), chunk_size),
        offsets_of(lengths, chunk_size),
        value=f"the offsets of sequences of {lengths} tokens, in chunks of {chunk_size},",
        likely=likely_cause,
        contiguous=True,
    )


@pytest.mark.parametrize(
    "lengths",
    [[5], [64], [65], [63, 1], [128, 0, 128], [0, 130, 0, 0, 64, 0], [1] * 6, [0, 0], []],
    ids=str,
)
def test_they_say_what_comes_before_each_sequence(kata, accelerator, lengths):
    expect_offsets(kata, accelerator, lengths)


@pytest.mark.parametrize("chunk_size", [16, 32, 128])
def test_chunks_may_be_of_another_size(kata, accelerator, chunk_size):
    lengths = [1, chunk_size - 1, chunk_size, chunk_size + 1, 0, 130]
    expect_offsets(kata, accelerator, lengths, chunk_size)


def test_all_digits_of_large_numbers_are_there(kata, accelerator):
    """Sums in float32 are exact only up to 2**24, and in int16 only below 2**15."""
    expect_offsets(kata, accelerator, [64 * 2**24 + 1, 64 * 2**20, 5])


def test_they_are_on_the_device(kata, accelerator):
    expect_equal(
        kata.prepare_chunk_offsets(on_device(accelerator, [65])).device.type,
        accelerator.device.type,
        value="the `device.type` of the offsets",
        likely="The kernels read the offsets: they have to be in the device's memory.",
    )


def test_each_step_has_its_own_offsets(kata, accelerator):
    cu_seqlens = on_device(accelerator, [70, 130])
    for lengths in ([70, 130], [300, 1], [1, 200]):
        starts = on_device(accelerator, lengths)
        alone = kata.prepare_chunk_offsets(starts).cpu()
        cu_seqlens.copy_(starts)
        with left_as_they_were(cu_seqlens=cu_seqlens):
            offsets = kata.prepare_chunk_offsets(cu_seqlens)
        value = f"the offsets of {lengths} tokens, in a tensor that held another step before,"
        expect_equal(offsets, alone, value=value, likely=STALE)


def record_call(kata, accelerator, num_seqs=FEW):
    """Records a call with sequences of two chunks each, queued after a kernel of 50
    microseconds."""
    cu_seqlens = on_device(accelerator, [65] * num_seqs)
    kata.prepare_chunk_offsets(cu_seqlens)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.prepare_chunk_offsets(cu_seqlens)
    return timeline


def test_nothing_travels(kata, accelerator):
    timeline = record_call(kata, accelerator)
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=TRAVELS)


def test_more_sequences_are_no_more_launches(kata, accelerator):
    few, many = (record_call(kata, accelerator, number) for number in (FEW, MANY))
    # The first kernel is the sleep that everything was queued after.
    for_few, for_many = (
        [event for event in timeline.events if event.on_device][1:] for timeline in (few, many)
    )
    expect(many).that(
        len(for_many) == len(for_few),
        expected=f"{MANY} sequences to take as many kernels and copies as {FEW}",
        did=f"takes {len(for_few)} for {FEW} sequences, and {len(for_many)} for {MANY}",
        events=for_many,
        why=ONE_BY_ONE,
    )


def common_steps(accelerator):
    batches = (
        [200, 1, 0, 64],
        [5],
        [],
        [64 * 2**24 + 1, 64 * 2**20],
        [0, 0],
        [1] * 40,
        [65],
        [1, 0, 200, 64],
    )
    steps = [
        Step(
            f"prepare_chunk_offsets of {lengths} tokens, in chunks of {size},",
            (on_device(accelerator, lengths), size),
            offsets_of(lengths, size),
        )
        for number, lengths in enumerate(batches)
        for size in [(64, 64, 64, 64, 16, 64, 32, 64)[number]]
    ]
    on_the_host = torch.tensor([0, 65, 65], dtype=torch.int32)
    call = "prepare_chunk_offsets of [65, 0] tokens on the host"
    return [*steps, Step(call, (on_the_host, 64), offsets_of([65, 0]))]


COMMON = Common(
    make=lambda kata, accelerator: kata.prepare_chunk_offsets,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (on_device(accelerator, [65] * n), 64), None),
    stale=STALE,
)
