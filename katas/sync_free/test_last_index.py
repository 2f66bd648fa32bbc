"""Tests of the kata `last_index`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    expect_refusal,
    left_as_they_were,
)

SIZE = 16
TAIL = (
    "The indices come first, in their order. All entries after them hold the last index: its "
    "value, and not the number of indices."
)
STALE = (
    "Entries that a step does not write still hold what an earlier, larger step wrote. Write the "
    "tail to the end of the buffer: a graph may read further than this step is padded to."
)
PART = (
    "The indices lie in the buffer itself here. If you write the tail first, or copy them to the "
    "front over each other, you overwrite indices that are still to be read. Read them first: "
    "`logits_indices.clone()` is memory of its own."
)
MOVED = (
    "A graph that was captured with the buffer reads its address in each replay. Write to the "
    "buffer itself, and return a slice of it: a slice is no copy."
)
WAITS = (
    "The last index is on the device, and there it is needed. `.item()`, `int()` and `.tolist()` "
    "bring it to the host, and the host waits for it; so do calls that need a number and get a "
    "tensor, such as `index_fill_` and `masked_fill_`. A slice can be assigned a tensor without "
    "dimensions: `buffer[a:b] = tensor[i]` never leaves the device."
)
REFUSED = (
    "A caller that asks for more rows than the buffer has, or for fewer than there are indices, "
    "has made a mistake, and a slice does not report it. The check that was there costs no wait: "
    "keep it."
)
ONE_BY_ONE = (
    "A launch takes the host a few microseconds, however little it writes. One assignment to a "
    "slice writes the whole tail."
)


def dirty_buffer(accelerator, size=SIZE):
    """Returns a buffer as another program might have left it: no entry is an index."""
    return torch.full((size,), -1, dtype=torch.int32, device=accelerator.device)


def on_device(accelerator, indices):
    return torch.tensor(indices, dtype=torch.int32).to(accelerator.device)


def padded(indices, size=SIZE):
    return torch.tensor(indices + [indices[-1]] * (size - len(indices)), dtype=torch.int32)


@pytest.mark.parametrize(
    ("indices", "num_padded"),
    [([7], 4), ([3, 9], 2), ([2, 5, 11], 4), ([4, 0], 8), (list(range(30, 46)), SIZE)],
)
def test_the_last_index_is_repeated(kata, accelerator, indices, num_padded):
    buffer, logits_indices = dirty_buffer(accelerator), on_device(accelerator, indices)
    with left_as_they_were(logits_indices=logits_indices):
        returned = kata._prepare_kv_sharing_fast_prefill(buffer, logits_indices, num_padded)
    call = f"_prepare_kv_sharing_fast_prefill(buffer, {indices}, {num_padded})"
    expect_equal(returned, padded(indices, num_padded), call=call, likely=TAIL)
    value = f"the buffer of {SIZE} after {call}"
    expect_equal(buffer, padded(indices), value=value, likely=STALE)


def test_indices_of_int64_are_taken_too(kata, accelerator):
    buffer, indices = dirty_buffer(accelerator), torch.tensor([3, 9, 5]).to(accelerator.device)
    kata._prepare_kv_sharing_fast_prefill(buffer, indices, 4)
    value = f"the buffer of {SIZE} after a step of [3, 9, 5], which are int64,"
    expect_equal(buffer, padded([3, 9, 5]), value=value, likely=TAIL)


PARTS = [slice(0, 3), slice(1, 4), slice(2, 9), slice(12, 16), slice(1, 16, 3)]


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_the_indices_may_be_a_part_of_the_buffer(kata, accelerator, part):
    indices = list(range(30, 30 + SIZE))
    buffer = on_device(accelerator, indices)
    kata._prepare_kv_sharing_fast_prefill(buffer, buffer[part], SIZE)
    where = f"[{part.start}:{part.stop}:{part.step or 1}]"
    value = f"a buffer of {indices} after a step of its part {where}"
    expect_equal(buffer, padded(indices[part]), value=value, likely=PART)


def test_nothing_of_a_larger_step_stays_behind(kata, accelerator):
    buffer = dirty_buffer(accelerator)
    for indices in ([3, 5, 70, 80, 90, 99], [1, 2], [4]):
        logits_indices = on_device(accelerator, indices)
        kata._prepare_kv_sharing_fast_prefill(buffer, logits_indices, 8)
        value = f"the buffer of {SIZE} after a step of {indices}, padded to 8,"
        expect_equal(buffer, padded(indices), value=value, likely=STALE)


def test_a_replay_reads_the_indices_of_its_step(kata, accelerator):
    buffer = dirty_buffer(accelerator)
    first = on_device(accelerator, [3, 5, 70])
    read = kata._prepare_kv_sharing_fast_prefill(buffer, first, SIZE)
    seen = torch.zeros_like(read)
    seen.add_(read)
    graph = accelerator.graph()
    with graph.capture():
        seen.zero_()
        seen.add_(read)
    for indices in ([8, 2], [1, 4, 6, 9]):
        logits_indices = on_device(accelerator, indices)
        kept = kata._prepare_kv_sharing_fast_prefill(buffer, logits_indices, 4)
        graph.replay()
        value = f"what a replay of {SIZE} rows reads in a step of {indices}, padded to 4,"
        expect_equal(seen, padded(indices), value=value, likely=MOVED)
    del kept


@pytest.mark.parametrize("num_padded", [2, SIZE + 1])
def test_what_was_refused_is_refused(kata, accelerator, num_padded):
    buffer, indices = dirty_buffer(accelerator), on_device(accelerator, [3, 5, 7])
    expect_refusal(
        lambda: kata._prepare_kv_sharing_fast_prefill(buffer, indices, num_padded),
        f"3 indices padded to {num_padded}, of a buffer of {SIZE}",
        why=REFUSED,
        buffer=buffer,
    )


def record_step(kata, accelerator, size=SIZE):
    """Records a call with three indices, queued after a kernel of 50 microseconds."""
    buffer, logits_indices = dirty_buffer(accelerator, size), on_device(accelerator, [3, 5, 7])
    kata._prepare_kv_sharing_fast_prefill(buffer, logits_indices, 8)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata._prepare_kv_sharing_fast_prefill(buffer, logits_indices, 8)
    return timeline


def test_the_index_stays_on_the_device(kata, accelerator):
    timeline = record_step(kata, accelerator)
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=WAITS)


def test_a_longer_tail_is_no_more_launches(kata, accelerator):
    short, long = (record_step(kata, accelerator, size) for size in (SIZE, 4 * SIZE))
    # The first kernel is the sleep that everything was queued after.
    for_short, for_long = (
        [event for event in timeline.events if event.on_device][1:] for timeline in (short, long)
    )
    expect(long).that(
        len(for_long) == len(for_short),
        expected=f"a buffer of {4 * SIZE} to take as many kernels and copies as one of {SIZE}",
        did=f"takes {len(for_short)} for {SIZE} entries, and {len(for_long)} for {4 * SIZE}",
        events=for_long,
        why=ONE_BY_ONE,
    )


def common_steps(accelerator):
    def step(indices, num_padded, dtype=torch.int32):
        given = torch.tensor(indices, dtype=dtype).to(accelerator.device)
        shown = f"{len(indices)} indices from {indices[0]} on"
        call = f"_prepare_kv_sharing_fast_prefill(buffer, {shown}, {num_padded})"
        return Step(call, (given, num_padded), (padded(indices, num_padded), padded(indices)))

    return [
        step([3, 5, 70, 80], 8),
        step([2**30], 1),
        step([9, 1, 4], 4, torch.int64),
        step([*range(SIZE)], SIZE),
        step([0, 0], 3),
        step([80, 2, 5, 9], 8),
    ]


def buffer_and_part(kata, accelerator):
    """Returns a function that returns what the kata returns, and the whole buffer."""
    buffer = dirty_buffer(accelerator)
    return lambda indices, num_padded: (
        kata._prepare_kv_sharing_fast_prefill(buffer, indices, num_padded),
        buffer,
    )


COMMON = Common(
    make=buffer_and_part,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (on_device(accelerator, [3] * (n // 4)), SIZE), None),
    stale=STALE,
)
