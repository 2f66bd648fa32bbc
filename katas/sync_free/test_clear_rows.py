"""Tests of the kata `clear_rows`."""

import numpy as np
import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    DeviceTraffic,
    Diagnosis,
    KataFailure,
    Step,
    expect,
    expect_equal,
    expect_refusal,
    in_a_row,
    left_as_they_were,
    part_of,
)

MAX_REQS = 32
IN_PLACE = (
    "`table[rows]` with a list or a tensor of rows is a new tensor, and a change of it never "
    "reaches the table. Only `table[rows] = ...` writes, as do methods of the table itself."
)
ROWS = "Only the named rows belong to requests that come or come back. The others are in use."
REFUSED = (
    "On the device -1 is the last row, which belongs to another request, and a row beyond the end "
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
    "Each launch costs the host some microseconds, however little the kernel does. Where rows are "
    "cleared one by one there is a kernel for every row of every table; `index_fill_` clears all "
    "rows of a table with one."
)
WHOLE = (
    "A table has a row for every request that may be there, and few of them come in a step. A "
    "product with the whole table, or a mask of it, reads and writes all of it. Write only the "
    "named rows."
)
NAN = "Whatever the row held, it must be zero. NaN times zero is NaN: write the zero."
PART = (
    "A table may be a part of a larger tensor, with other values between its rows. Then `reshape` "
    "is a copy, and a write to the copy never reaches the table."
)
OVERWRITTEN = (
    "A queued copy reads its pinned memory when its turn comes. If a later call has written to "
    "the same memory by then, the rows of the first call are never cleared. Take fresh pinned "
    "memory in each call: PyTorch keeps it until its copy is done."
)


def tables_on(accelerator):
    """Returns two words of bits and 40 counts for each request, none of them zero."""
    device = accelerator.device
    bits = torch.full((MAX_REQS, 2), -1, dtype=torch.int32, device=device)
    return [bits, torch.full((MAX_REQS, 40), 3, dtype=torch.int32, device=device)]


def in_place_or(otherwise):
    """Returns a function that tells the cause: a table without any zero was never written to."""
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


def test_a_row_of_nan_is_zero_too(kata, accelerator):
    table = torch.full((4, 8), float("nan"), device=accelerator.device)
    right = cleared(table, [2])
    rows = [2]
    with left_as_they_were(rows=rows):
        kata.clear_rows(rows, [table])
    expect_equal(table, right, value="a table of NaN after clear_rows([2], [table])", likely=NAN)


def test_a_table_may_be_a_part_of_a_larger_tensor(kata, accelerator):
    table, whole = part_of(torch.full((MAX_REQS, 8), 3, dtype=torch.int32), accelerator.device)
    right = whole.cpu()
    right[[3, 1], 1:9] = 0
    kata.clear_rows([3, 1], [table])
    value = "the [32, 11] tensor whose columns 1 to 8 are the table, after clear_rows([3, 1], ...),"
    expect_equal(whole, right, value=value, likely=PART)


def test_tables_may_have_any_dimensions_and_many_rows(kata, accelerator):
    shapes, rows = [(40_000,), (40_000, 2, 3)], [39_999, 300, 32_768]
    tables = [torch.ones(shape, dtype=torch.uint8, device=accelerator.device) for shape in shapes]
    expected = [cleared(table, rows) for table in tables]
    kata.clear_rows(rows, tables)
    for shape, table, right in zip(shapes, tables, expected, strict=True):
        value = f"a table of {list(shape)} after clear_rows({rows}, tables)"
        expect_equal(table, right, value=value, likely=in_place_or(ROWS))


def test_few_rows_do_not_write_a_whole_table(kata, accelerator):
    shape = (64 * MAX_REQS, 40)
    tables = [torch.ones(shape, dtype=torch.int32, device=accelerator.device) for _ in range(2)]
    kata.clear_rows([2, 9], tables)
    with DeviceTraffic() as traffic:
        kata.clear_rows([3, 70, 5], tables)
    if traffic.nbytes > tables[0].nbytes // 2:
        expected = f"3 rows of {shape[1] * 4} bytes to be cleared in 2 tables"
        did = f"wrote {traffic.nbytes:,} bytes: a table has {tables[0].nbytes:,}"
        raise KataFailure(Diagnosis(expected, did, traffic.largest(), why=WHOLE))


def test_a_row_that_a_table_lacks_is_refused(kata, accelerator):
    # A row that is too large would make a learner's GPU useless for later tests.
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


def test_a_row_that_one_of_the_tables_lacks_is_refused(kata, accelerator):
    if not accelerator.modelled:
        pytest.skip("on a GPU a row that is not there, and not refused, ends all that follows")
    long, short = tables_on(accelerator)[0], tables_on(accelerator)[1][:8]
    expect_refusal(
        lambda: kata.clear_rows([2, 8], [long, short]),
        "row 8 of tables of 32 and 8 rows",
        why=REFUSED,
        table_of_32=long,
    )


def record_clearing(kata, accelerator, num_rows=16):
    """Records the clearing of rows of two tables, queued after a kernel of 50 microseconds."""
    tables = tables_on(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.clear_rows(list(range(0, 2 * num_rows, 2)), tables)
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
    record_clearing(kata, accelerator)
    few, many = (record_clearing(kata, accelerator, number) for number in (2, 16))
    for_few, for_many = (
        [event for event in timeline.events if event.kind == "kernel" and not from_here(event)]
        for timeline in (few, many)
    )
    expect(many).that(
        len(for_many) <= len(for_few),
        expected="16 rows of 2 tables to take no more kernels than 2 rows of them",
        did=f"launched {len(for_few)} kernels for 2 rows, and {len(for_many)} for 16",
        events=for_many,
        why=LAUNCHES,
    )


def from_here(event):
    return event.source is not None and event.source.file == __file__


def test_each_of_many_calls_in_flight_clears_its_own_rows(kata, accelerator):
    def call(number):
        table = torch.full((MAX_REQS * 8, 2), 3, dtype=torch.int32, device=accelerator.device)
        kata.clear_rows([number, 100, 2 * number], [table])
        return table

    tables, timeline = in_a_row(accelerator, call)
    expect(timeline).no_hazards(why=OVERWRITTEN)
    for number, table in enumerate(tables):
        right = torch.full((MAX_REQS * 8, 2), 3, dtype=torch.int32)
        right[[number, 100, 2 * number]] = 0
        value = f"the table of call {number} of {len(tables)}, all in flight at once,"
        expect_equal(table, right, value=value, likely=in_place_or(OVERWRITTEN))


def common_steps(accelerator):
    dtypes = (torch.int32, torch.float16, torch.bool, torch.int64, torch.uint8, torch.float64)

    def step(rows, shapes=((8, 3), (8,), (8, 2, 2)) * 2):
        tables = [torch.ones(s, dtype=d) for s, d in zip(shapes, dtypes, strict=False)]
        right = [cleared(table, rows) for table in tables]
        tables = [table.to(accelerator.device) for table in tables]
        return Step(f"clear_rows({rows!r}, {len(tables)} tables)", (rows, tables), right)

    return [
        step([7, 0, 3]),
        step((5,)),
        step([]),
        step(np.array([2, 2, 6])),
        step(range(1, 8)),
        step([299], [(300, 4), (400,)]),
        step([0, 1], [(2, 1)]),
    ]


def clearing(kata, accelerator):
    def run(rows, tables):
        kata.clear_rows(rows, tables)
        return tables

    return run


COMMON = Common(
    make=clearing,
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "", ([*range(n)], [torch.ones(64, 2, device=accelerator.device)]), None
    ),
    changes=(1,),
    stale="Rows of an earlier call are no rows of this one: it has a list of its own.",
)
