"""Tests of the kata `fixed_addresses`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    expect_refusal,
    in_a_row,
    left_as_they_were,
    same_objects,
)

SEQUENCES, RANGES = 8, 3
MOVED = (
    "A graph that was captured with the first tensor reads that address in each replay, whatever "
    "it holds by then. Make the tensor in `__init__` and copy each step's ranges into it. A tensor "
    "that is made again for a larger step has a new address too."
)
LEFT_BEHIND = (
    "What a step does not write still has the ranges of an earlier step: rows of the tensor on the "
    "device, or rows of a pinned buffer that an earlier step has filled. Write all rows of both, "
    "with zeros where there are no ranges; a captured graph reads its padding rows too."
)
STILL_THERE = (
    "A replay runs the kernels that were captured: they cannot get None, and read the buffer as it "
    "is. With for_graphs a step without ranges has to write zeros."
)
MANY = (
    "Each copy costs time, its bytes cost little. Fill one pinned tensor on the host, and copy it "
    "once and without waiting."
)
STALE = (
    "Did you skip a step because its dict is the one of the step before? The engine changes it in "
    "place when a request comes or goes."
)
TOO_EARLY = (
    "Did a later step's ranges overwrite a pinned buffer that this step's copy had not read yet? "
    "Query the event of its last copy before you write to it, as `staging_ring` does, or take a "
    "fresh pinned tensor in each step."
)
TOO_LARGE = (
    "A slice that goes beyond the end is just shorter: rows or ranges are then lost without an "
    "error, and images are attended to as if they were text. Compare both numbers with those of "
    "`__init__` before anything is written."
)
OWN_ERROR = (
    "An error from the middle of the work comes when a part may have been written, and names no "
    "request. Compare the number of sequences and of ranges with those of `__init__` first, and "
    "raise ValueError."
)
NEEDLESS = (
    "Without for_graphs `update` gives None for a step without ranges, and then no layer reads the "
    "buffer: an upload of zeros is a copy without a reader."
)


def buffer_of(kata, accelerator, **options):
    return kata.PrefixRangeBuffer(SEQUENCES, RANGES, accelerator.device, **options)


def rows_of(ranges, num_seqs):
    rows = torch.zeros(num_seqs, RANGES, 2, dtype=torch.int32)
    for row, spans in ranges.items():
        rows[row, : len(spans)] = torch.tensor(spans, dtype=torch.int32)
    return rows


STEPS = [
    ({0: [(2, 5)], 3: [(1, 3), (6, 9), (10, 12)]}, 4),
    ({1: [(7, 9)]}, 2),
    ({row: [(row, 20), (30, 40), (50, 60)] for row in range(SEQUENCES)}, SEQUENCES),
    ({2: [(4, 6)]}, 3),
]


def test_each_step_has_its_rows(kata, accelerator):
    buffer = buffer_of(kata, accelerator)
    for ranges, num_seqs in STEPS:
        with left_as_they_were(ranges=ranges):
            tensor = buffer.update(ranges, num_seqs)
        expect_equal(
            tensor,
            rows_of(ranges, num_seqs),
            call=f"update(ranges of {len(ranges)} requests, {num_seqs})",
            likely=LEFT_BEHIND,
        )


def test_a_step_without_ranges_is_none(kata, accelerator):
    buffer = buffer_of(kata, accelerator)
    expect_equal(buffer.update({}, 4), None, call="update({}, 4)")
    buffer.update({0: [(2, 5)]}, 4)
    with debubble.record(accelerator) as timeline:
        nothing = buffer.update({}, 4)
    expect_equal(nothing, None, call="update({}, 4), after update({0: [(2, 5)]}, 4),")
    expect(timeline).counts(h2d_pinned=0, h2d_pageable=0, why=NEEDLESS)


@pytest.mark.parametrize(
    ("ranges", "num_seqs"), [({0: [(2, 5)]}, 9), ({1: [(1, 3), (4, 6), (7, 9), (10, 12)]}, 2)]
)
def test_a_step_larger_than_the_buffer_is_refused(kata, accelerator, ranges, num_seqs):
    buffer, call = buffer_of(kata, accelerator), f"update({ranges}, {num_seqs})"
    expect_refusal(
        lambda: buffer.update(ranges, num_seqs),
        f"{call} in a buffer for 8 sequences of 3 ranges",
        why=TOO_LARGE,
        other=OWN_ERROR,
    )


def test_the_address_is_always_the_same(kata, accelerator):
    buffer = buffer_of(kata, accelerator)
    with debubble.record(accelerator) as timeline:
        tensors = [buffer.update(ranges, num_seqs) for ranges, num_seqs in STEPS]
    addresses = {tensor.data_ptr() for tensor in tensors}
    expect(timeline).that(
        len(addresses) == 1,
        expected=f"the tensors of {len(STEPS)} steps to begin at 1 address",
        did=f"returned tensors at {len(addresses)} addresses",
        why=MOVED,
    )


def capture_reading(accelerator, tensor):
    """Captures a graph that reads the tensor, as a layer's kernel does. Returns it with what it
    read."""
    seen = torch.zeros_like(tensor)
    seen.add_(tensor)
    graph = accelerator.graph()
    with graph.capture():
        seen.zero_()
        seen.add_(tensor)
    return graph, seen


def test_a_replay_reads_the_ranges_of_its_step(kata, accelerator):
    buffer = buffer_of(kata, accelerator, for_graphs=True)
    first = buffer.update({0: [(2, 5)]}, 4)
    graph, seen = capture_reading(accelerator, first)
    for ranges in ({1: [(7, 9)]}, {0: [(1, 3)], 3: [(4, 6), (8, 9)]}):
        kept = buffer.update(ranges, 4)
        graph.replay()
        expect_equal(
            seen,
            rows_of(ranges, 4),
            value=f"what a replay reads after update({ranges}, 4)",
            likely=MOVED,
        )
    del kept


def test_nothing_of_a_larger_step_stays_behind(kata, accelerator):
    buffer = buffer_of(kata, accelerator, for_graphs=True)
    every_row = buffer.update({row: [(1, 9), (20, 30)] for row in range(SEQUENCES)}, SEQUENCES)
    graph, seen = capture_reading(accelerator, every_row)
    kept = buffer.update({0: [(2, 5)]}, 2)
    graph.replay()
    expect_equal(
        seen,
        rows_of({0: [(2, 5)]}, SEQUENCES),
        value="what a replay of 8 rows reads after update({0: [(2, 5)]}, 2)",
        likely=LEFT_BEHIND,
    )
    del kept


def test_a_step_without_ranges_replays_zeros(kata, accelerator):
    buffer = buffer_of(kata, accelerator, for_graphs=True)
    zeros = buffer.update({}, 4)
    expect_equal(zeros, rows_of({}, 4), call="update({}, 4), the first one,", likely=STILL_THERE)
    first = buffer.update({0: [(2, 5)]}, 4)
    graph, seen = capture_reading(accelerator, first)
    kept = buffer.update(None, 4)
    graph.replay()
    value = "what a replay reads after update(None, 4)"
    expect_equal(seen, rows_of({}, 4), value=value, likely=STILL_THERE)
    del kept


def test_a_step_is_one_upload_that_nobody_waits_for(kata, accelerator):
    buffer = buffer_of(kata, accelerator)
    buffer.update({0: [(2, 5)]}, 4)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        buffer.update({row: [(row, 20), (30, 40)] for row in range(SEQUENCES)}, SEQUENCES)
    expect(timeline).counts(host_syncs=0, why=MANY)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pinned=1, h2d_pageable=0, why=MANY)


def test_each_of_two_steps_in_flight_reads_its_own_ranges(kata, accelerator):
    buffer = buffer_of(kata, accelerator)
    seen, timeline = in_a_row(accelerator, lambda step: buffer.update({0: [(step, 500)]}, 4))
    expect(timeline).no_hazards(why=TOO_EARLY)
    for step, ranges in enumerate(seen):
        value = f"what step {step} reads, of {len(seen)} that were queued in a row,"
        expect_equal(ranges, rows_of({0: [(step, 500)]}, 4), value=value, likely=TOO_EARLY)


def test_a_dict_that_changed_has_other_rows(kata, accelerator):
    buffer = buffer_of(kata, accelerator)
    for ranges, num_seqs in same_objects(STEPS):
        tensor = buffer.update(ranges, num_seqs)
        call = f"update({ranges}, {num_seqs}), whose dict was changed in place,"
        expect_equal(tensor, rows_of(ranges, num_seqs), call=call, likely=STALE)


def common_steps(accelerator):
    large = {1: [(2**20, 2**30)], 0: [(1, 2), (3, 4)]}
    steps = [*STEPS, (large, 3), ({}, 0), (None, 2), (STEPS[2][0], SEQUENCES), ({5: [(1, 2)]}, 2)]
    steps += [(STEPS[2][0], SEQUENCES), (None, 2)]
    made = []
    for ranges, num_seqs in steps:
        own = {row: spans for row, spans in (ranges or {}).items() if row < num_seqs}
        made.append(
            Step(
                f"update({ranges}, {num_seqs}), for graphs,",
                (None if ranges is None else dict(ranges), num_seqs),
                (rows_of(own, num_seqs), rows_of(own, SEQUENCES)),
            )
        )
    return made


def updating(kata, accelerator):
    """Returns a function that returns what `update` returns, and the whole buffer, which a graph of
    the largest step reads."""
    buffer = buffer_of(kata, accelerator, for_graphs=True)
    whole = buffer.update({0: [(1, 2)]}, SEQUENCES)
    return lambda ranges, num_seqs: (buffer.update(ranges, num_seqs), whole)


COMMON = Common(make=updating, steps=common_steps, stale=LEFT_BEHIND)


@pytest.mark.parametrize("steps_in_flight", [1, 3])
def test_as_many_steps_as_are_in_flight_wait_for_nothing(kata, accelerator, steps_in_flight):
    new = lambda: buffer_of(kata, accelerator, steps_in_flight=steps_in_flight)
    new().update({0: [(2, 5)]}, 4)  # loads what a first upload loads
    buffer = new()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        for step in range(steps_in_flight):
            buffer.update({0: [(step, 20)]}, 4)
    expect(timeline).counts(host_syncs=0, why=IN_FLIGHT)


IN_FLIGHT = (
    "`steps_in_flight` steps may be queued before `update` waits. So there is a pinned buffer for "
    "each of them, or new pinned memory in each step, and only a buffer whose copy is not done is "
    "waited for."
)
