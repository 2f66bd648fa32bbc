"""Tests of the kata `clear_rows`."""

import pytest
import torch

import debubble
from debubble.workshop import expect, expect_equal

MAX_REQS = 32
IN_PLACE = (
    "`table[rows]` with a list or a tensor of rows is a new tensor, and what is done to it never "
    "reaches the table. Only `table[rows] = ...` writes, as do methods of the table itself."
)
ROWS = "Only the named rows belong to requests that come or come back. The others are in use."
REFUSED = (
    "On the device -1 is the last row, which belongs to somebody else, and a row beyond the end "
    "stops the whole process. The host knows the rows, so it can refuse them."
)
WAITS = (
    "Three things make the host wait here: rows that are uploaded from pageable memory, a zero "
    "that is a tensor on the CPU, as in `table[rows] = 0`, and a zero on the device that an "
    "operator reads back. A plain number, as in `table.index_fill_(0, rows, 0)`, is an argument of "
    "the kernel, and travels with its launch."
)
SHARED = (
    "The same rows are cleared in all tables: upload them once, and each table can use them on the "
    "device. A zero needs no upload at all."
)
LAUNCHES = (
    "Each launch costs the host some microseconds, however little the kernel does. A loop over "
    "rows launches a kernel for every row of every table; `index_fill_` clears all rows of a table "
    "with one."
)
OVERWRITTEN = (
    "A queued copy reads its pinned memory when its turn comes. If the next call has written to "
    "the same memory by then, the rows of the first call are never cleared. Take fresh pinned "
    "memory in each call: PyTorch keeps it until its copy is done."
)


def tables_on(accelerator):
    """A word of bits and some counts for each request, and none of them zero."""
    device = accelerator.device
    bits = torch.full((MAX_REQS, 2), -1, dtype=torch.int32, device=device)
    return [bits, torch.full((MAX_REQS, 40), 3, dtype=torch.int32, device=device)]


def in_place_or(otherwise):
    """A table without any zero was never written to."""
    return lambda actual, expected: otherwise if (actual == 0).any() else IN_PLACE


def cleared(table, rows):
    expected = table.cpu().clone()
    for row in rows:
        expected[row].zero_()
    return expected


@pytest.mark.parametrize(
    "rows",
    [[3], [31, 0, 7], [5, 5], [], list(range(MAX_REQS))],
    ids=["one", "three", "one twice", "none", "all"],
)
def test_the_rows_are_zero_and_the_others_are_as_they_were(kata, accelerator, rows):
    tables = tables_on(accelerator)
    expected = [cleared(table, rows) for table in tables]
    kata.clear_rows(rows, tables)

    for number, (table, right) in enumerate(zip(tables, expected, strict=True)):
        value = f"table {number} after clear_rows({rows}, tables)"
        expect_equal(table, right, value=value, likely=in_place_or(ROWS))


def test_a_row_that_a_table_lacks_is_refused(kata, accelerator):
    # Not one that is too large: a learner's GPU would be of no use for the tests that follow.
    tables = tables_on(accelerator)
    refused = False
    with debubble.record(accelerator) as timeline:
        try:
            kata.clear_rows([2, -1], tables)
        except ValueError:
            refused = True
    expect(timeline).that(
        refused,
        expected="a ValueError for row -1",
        did="took it for a row",
        why=REFUSED,
    )


def record_clearing(kata, accelerator):
    """16 rows of two tables, behind a kernel of 50 microseconds."""
    tables = tables_on(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.clear_rows(list(range(0, MAX_REQS, 2)), tables)
    return timeline


def test_nobody_waits(kata, accelerator):
    timeline = record_clearing(kata, accelerator)
    expect(timeline).counts(host_syncs=0, why=WAITS)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=WAITS)


def test_all_tables_share_one_upload(kata, accelerator):
    timeline = record_clearing(kata, accelerator)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) <= 1,
        expected="1 upload of the rows, for both tables",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=SHARED,
    )


def test_a_table_takes_few_launches_however_many_rows(kata, accelerator):
    timeline = record_clearing(kata, accelerator)
    own = [event for event in timeline.events if event.kind == "kernel" and not from_here(event)]
    expect(timeline).that(
        len(own) <= 6,
        expected="a kernel or two for each of 2 tables",
        did=f"launched {len(own)} kernels for 16 rows of them",
        events=own,
        why=LAUNCHES,
    )


def from_here(event):
    return event.source is not None and event.source.file == __file__


def test_each_of_many_calls_in_flight_clears_its_own_rows(kata, accelerator):
    tables = [tables_on(accelerator) for _ in range(4)]
    expected = [cleared(counts, [call]) for call, (_, counts) in enumerate(tables)]
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.2 if accelerator.modelled else 20.0)
        for call, of_call in enumerate(tables):
            kata.clear_rows([call], of_call)
    expect(timeline).no_hazards(why=OVERWRITTEN)
    for call, (_, counts) in enumerate(tables):
        expect_equal(
            counts,
            expected[call],
            value=f"the counts of call {call} of 4, all in flight at once,",
            likely=in_place_or(OVERWRITTEN),
        )
