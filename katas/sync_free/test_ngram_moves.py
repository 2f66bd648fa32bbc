"""Tests of the kata `ngram_moves`."""

import pytest
import torch

import debubble
from debubble.workshop import expect, expect_equal

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
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that the next call writes "
    "to again may bring the row numbers of the wrong call. Take fresh pinned memory in each."
)


def tables_on(accelerator, first=0):
    """Token ids and lengths; no two rows are the same."""
    numbers = torch.arange(first, first + 8 * NUM_ROWS, dtype=torch.int32)
    token_ids = numbers.view(NUM_ROWS, 8)
    return [table.to(accelerator.device) for table in (token_ids, token_ids[:, 0] + 7000)]


def moved(table, moves):
    """Read from one copy and written to another."""
    before, after = table.cpu(), table.cpu().clone()
    for source, target in moves:
        after[target] = before[source]
    return after


def expect_moved(kata, accelerator, moves):
    tables = tables_on(accelerator)
    right = [moved(table, moves) for table in tables]
    kata.move_rows(tables, moves)
    for name, table, wanted in zip(("token_ids", "num_tokens"), tables, right, strict=True):
        value = f"`{name}` after move_rows([token_ids, num_tokens], {moves})"
        expect_equal(table, wanted, value=value, likely=OVERWRITTEN)


@pytest.mark.parametrize("moves", [[(3, 1)], [(9, 0), (2, 5), (15, 3)]])
def test_rows_move_in_every_table(kata, accelerator, moves):
    expect_moved(kata, accelerator, moves)


@pytest.mark.parametrize("moves", [[(0, 1), (1, 0)], [(4, 2), (2, 7), (7, 4)], [(5, 6), (6, 8)]])
def test_rows_may_change_places(kata, accelerator, moves):
    expect_moved(kata, accelerator, moves)


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
    """Rows are passed round, behind a kernel of 50 microseconds."""
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
    # Without the kernel that all was queued behind.
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
    several = [tables_on(accelerator, first=1000 * number) for number in range(8)]
    moves = [[(number, 15)] for number in range(8)]
    right = [moved(tables[0], own) for tables, own in zip(several, moves, strict=True)]
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        # Long enough for a real host to queue everything; the modelled host needs less.
        accelerator.sleep(0.2 if accelerator.modelled else 20.0)
        for tables, own in zip(several, moves, strict=True):
            kata.move_rows(tables, own)
    expect(timeline).no_hazards(why=REUSED)
    for number, (tables, wanted) in enumerate(zip(several, right, strict=True)):
        value = f"`token_ids` of call {number}, of 8 calls behind a kernel that was still running,"
        expect_equal(tables[0], wanted, value=value, likely=REUSED)
