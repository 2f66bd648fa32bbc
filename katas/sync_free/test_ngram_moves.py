"""Tests of the kata `ngram_moves`."""

import math

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

NUM_ROWS = 16
OVERWRITTEN = (
    "All rows move at the same moment: each arrives as it was before the first one moved. A row "
    "that is written to before it was read is lost. Gather all rows that move into memory of their "
    "own first, then write them to their places."
)
WAITS = (
    "A tensor made from a Python list lies in pageable memory, and so does a list that is used as "
    "an index. Its upload keeps the host until the device has done all that was queued before. Pin "
    "the row numbers, and copy them with non_blocking=True."
)
TOGETHER = (
    "Sources and targets are known at the same time, and all tables move by the same ones. So they "
    "can travel in one tensor, and be cut apart on the device: `a, b = both.unbind()` copies "
    "nothing."
)
ONE_BY_ONE = (
    "A launch takes the host a few microseconds, whatever it moves. `table.index_select(0, rows)` "
    "or `table[rows]` gathers any number of rows by one kernel, and `table.index_copy_` or "
    "`table[rows] = ...` writes them by another."
)
NOTHING = "In most steps no request changes its row. These steps need no upload and no kernel."
WHOLE = (
    "A table has a row for every request that may be there, and few of them move in a step. A "
    "permutation of the whole table reads and writes all of it. Gather the rows that move, and "
    "write only them."
)
PART = (
    "A table may be a part of a larger tensor, with other values between its rows. A write to a "
    "copy, as `reshape` or `contiguous` make one, never reaches it."
)
REFUSED = (
    "On the device -1 is the last row, which is another request's. If two rows move to the same "
    "place, either may arrive. The check that was there reads the host's numbers: keep it."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that a later call writes "
    "to again may bring the row numbers of the wrong call. Take fresh pinned memory in each."
)


def tables_on(accelerator, first=0):
    """Returns token ids and lengths; no two rows are the same."""
    numbers = torch.arange(first, first + 8 * NUM_ROWS, dtype=torch.int32)
    token_ids = numbers.view(NUM_ROWS, 8)
    return [table.to(accelerator.device) for table in (token_ids, token_ids[:, 0] + 7000)]


def moved(table, moves):
    """Returns the table after the moves, read from one copy and written to another."""
    before, after = table.cpu(), table.cpu().clone()
    for source, target in moves:
        after[target] = before[source]
    return after


def expect_moved(kata, accelerator, moves):
    tables = tables_on(accelerator)
    right = [moved(table, moves) for table in tables]
    with left_as_they_were(moves=moves):
        kata.move_rows(tables, moves)
    for name, table, wanted in zip(("token_ids", "num_tokens"), tables, right, strict=True):
        value = f"`{name}` after move_rows([token_ids, num_tokens], {moves})"
        expect_equal(table, wanted, value=value, likely=OVERWRITTEN)


@pytest.mark.parametrize(
    "moves", [[(3, 1)], [(9, 0), (2, 5), (15, 3)], [(0, 1), (0, 2)], [(4, 7), (5, 5), (4, 6)]]
)
def test_rows_move_in_every_table(kata, accelerator, moves):
    expect_moved(kata, accelerator, moves)


@pytest.mark.parametrize("moves", [[(0, 1), (1, 0)], [(4, 2), (2, 7), (7, 4)], [(5, 6), (6, 8)]])
def test_rows_may_change_places(kata, accelerator, moves):
    expect_moved(kata, accelerator, moves)


def test_tables_may_have_any_dimensions_and_many_rows(kata, accelerator):
    moves = [(39_999, 300), (300, 32_768), (5, 39_999)]
    for shape in [(40_000,), (40_000, 2, 2)]:
        table = torch.arange(math.prod(shape), dtype=torch.int32).view(shape).to(accelerator.device)
        right = moved(table, moves)
        kata.move_rows([table], moves)
        value = f"a table of {list(shape)} after move_rows([table], {moves})"
        expect_equal(table, right, value=value, likely=OVERWRITTEN)


def test_a_table_may_be_a_part_of_a_larger_tensor(kata, accelerator):
    values = torch.arange(8 * NUM_ROWS, dtype=torch.int32).view(NUM_ROWS, 8)
    table, whole = part_of(values, accelerator.device)
    right, moves = whole.cpu(), [(0, 3), (3, 0)]
    right[[3, 0], 1:9] = values[[0, 3]]
    kata.move_rows([table], moves)
    value = f"the [16, 11] tensor whose columns 1 to 8 are the table, after move_rows(..., {moves})"
    expect_equal(whole, right, value=value, likely=PART)


# A row that is too large would make a learner's GPU useless for later tests.
@pytest.mark.parametrize(
    "moves",
    [[(3, 1), (-1, 2)], [(3, -1)], [(3, 1), (4, 1)], [(-1, -1)], [(3, 1), (1, 1)]],
    ids=str,
)
def test_what_was_refused_is_refused(kata, accelerator, moves):
    tables = tables_on(accelerator)
    call = f"move_rows(tables, {moves})"
    expect_refusal(lambda: kata.move_rows(tables, moves), call, why=REFUSED, token_ids=tables[0])


def test_few_moves_do_not_write_a_whole_table(kata, accelerator):
    shape = (64 * NUM_ROWS, 40)
    tables = [torch.ones(shape, dtype=torch.int32, device=accelerator.device) for _ in range(2)]
    kata.move_rows(tables, [(1, 2)])
    with DeviceTraffic() as traffic:
        kata.move_rows(tables, [(3, 70), (70, 3), (5, 6)])
    if traffic.nbytes > tables[0].nbytes // 2:
        expected = f"3 rows of {shape[1] * 4} bytes to be moved in 2 tables"
        did = f"wrote {traffic.nbytes:,} bytes: a table has {tables[0].nbytes:,}"
        raise KataFailure(Diagnosis(expected, did, traffic.largest(), why=WHOLE))


def test_nothing_to_move_is_nothing_to_do(kata, accelerator):
    tables = tables_on(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        kata.move_rows(tables, [])
    expect(timeline).that(
        not timeline.events,
        expected="a step in which nothing moves to leave the device alone",
        did="gives the device something to do",
        events=[event for event in timeline.events if event.on_device],
        why=NOTHING,
    )


def record_moves(kata, accelerator, num_moves):
    """Records a call that rotates `num_moves` rows, queued after a kernel of 50 microseconds."""
    tables = tables_on(accelerator)
    moves = [(row, (row + 1) % num_moves) for row in range(num_moves)]
    kata.move_rows(tables_on(accelerator), moves)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.move_rows(tables, moves)
    return timeline


def test_nobody_waits(kata, accelerator):
    timeline = record_moves(kata, accelerator, NUM_ROWS)
    expect(timeline).counts(host_syncs=0, why=WAITS)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=WAITS)


def test_all_row_numbers_share_one_upload(kata, accelerator):
    timeline = record_moves(kata, accelerator, NUM_ROWS)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) <= 1,
        expected=f"1 upload for {NUM_ROWS} moves in 2 tables",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=TOGETHER,
    )


def test_more_moves_are_no_more_launches(kata, accelerator):
    few, many = (record_moves(kata, accelerator, number) for number in (2, NUM_ROWS))
    # The first kernel is the sleep that everything was queued after.
    for_few, for_many = (
        [event for event in timeline.events if event.on_device][1:] for timeline in (few, many)
    )
    expect(many).that(
        len(for_many) == len(for_few),
        expected=f"{NUM_ROWS} rows to move by as many kernels and copies as 2 rows",
        did=f"takes {len(for_few)} for 2 rows, and {len(for_many)} for {NUM_ROWS}",
        events=for_many,
        why=ONE_BY_ONE,
    )


def test_calls_that_follow_at_once_do_not_disturb_each_other(kata, accelerator):
    """Each call rotates 100 rows, and starts at a different row."""

    def call(number):
        table = torch.arange(256, dtype=torch.int32, device=accelerator.device).view(256, 1)
        kata.move_rows([table], moves_of(number))
        return table

    def moves_of(number):
        return [(row, row + 1) for row in range(number, number + 100)]

    several, timeline = in_a_row(accelerator, call)
    expect(timeline).no_hazards(why=REUSED)
    for number, table in enumerate(several):
        right = moved(torch.arange(256, dtype=torch.int32).view(256, 1), moves_of(number))
        value = f"the table of call {number}, of {len(several)} queued while a kernel still ran,"
        expect_equal(table, right, value=value, likely=REUSED)


def common_steps(accelerator):
    dtypes = (torch.int32, torch.float16, torch.bool)

    def step(moves, num_rows=10):
        numbers = torch.arange(num_rows * 4).view(num_rows, 2, 2)
        tables = [(numbers % 1000).to(dtype) for dtype in dtypes]
        tables.append(torch.arange(num_rows))
        right = [moved(table, moves) for table in tables]
        tables = [table.to(accelerator.device) for table in tables]
        return Step(f"move_rows({len(tables)} tables, {moves})", (tables, moves), right)

    return [
        step([(0, 1), (1, 0), (7, 9)]),
        step([(3, 2)]),
        step([]),
        step([(row, (row + 1) % 10) for row in range(10)]),
        step([(9, 9), (4, 4)]),
        step(((299, 0), (0, 256)), 300),
        step([(5, 5), (5, 6)]),
        step([(0, 1), (0, 2), (1, 0)]),
        step([(7, 3)]),
    ]


def moving(kata, accelerator):
    def run(tables, moves):
        kata.move_rows(tables, moves)
        return tables

    return run


COMMON = Common(
    make=moving,
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "",
        (
            [torch.ones(64, 2, device=accelerator.device)],
            [(row, (row + 1) % n) for row in range(n)],
        ),
        None,
    ),
    changes=(0,),
    stale="The moves of an earlier call are not the moves of this one.",
)
