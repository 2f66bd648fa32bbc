"""move_rows, after and before the change."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions.sync_free.before import row_moves as before
from solutions.sync_free.sites import row_moves
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [row_moves, before], ids=["ours", "before"])
NUM_ROWS = 6
SWAP, CYCLE = [(0, 1), (1, 0)], [(0, 3), (3, 5), (5, 0)]

some_moves = st.permutations(range(NUM_ROWS)).flatmap(
    lambda targets: st.lists(st.integers(0, NUM_ROWS - 1), max_size=NUM_ROWS).map(
        lambda sources: list(zip(sources, targets, strict=False))
    )
)


def some_tables():
    wide = np.arange(NUM_ROWS * 4, dtype=np.int32).reshape(NUM_ROWS, 4)
    return wide, wide[:, 0] + 100


def on_device(accelerator, arrays):
    return [torch.from_numpy(array).to(accelerator.device) for array in arrays]


def moved(array, moves):
    """Returns a copy of the array in which each row `target` is the row `source` of the original,
    for all (source, target) of `moves`."""
    result = array.copy()
    for source, target in moves:
        result[target] = array[source]
    return result


@BOTH
@given(moves=some_moves)
def test_every_row_arrives_as_it_was(accelerator, module, moves):
    """Rows move in chains and rings, whichever of them is written first (vLLM #50729)."""
    arrays = some_tables()
    tables = on_device(accelerator, arrays)
    module.move_rows(tables, moves)
    for table, array in zip(tables, arrays, strict=True):
        np.testing.assert_array_equal(table.cpu().numpy(), moved(array, moves))


def test_a_loop_over_rows_would_overwrite_what_it_still_has_to_read(accelerator):
    for moves in (SWAP, CYCLE):
        ours, theirs = (on_device(accelerator, some_tables())[0] for _ in range(2))
        for source, target in moves:
            theirs[target].copy_(theirs[source])
        row_moves.move_rows([ours], moves)
        right = moved(some_tables()[0], moves)
        assert ours.tolist() == right.tolist()
        assert theirs.tolist() != right.tolist()


def test_one_pinned_upload_for_all_tables_and_no_wait(accelerator):
    tables = on_device(accelerator, some_tables())
    counts = claims.expect_no_wait(accelerator, lambda: row_moves.move_rows(tables, CYCLE))
    assert counts["kernels"] == 2 * len(tables)
    assert claims.counts_of(accelerator, lambda: before.move_rows(tables, CYCLE))["host_syncs"] == 2


def test_without_a_move_the_device_is_left_alone(accelerator):
    tables = on_device(accelerator, some_tables())
    with debubble.record(accelerator) as timeline:
        row_moves.move_rows(tables, [])
    assert timeline.events == []


def test_overlapped_moves_all_arrive(accelerator):
    random = np.random.default_rng(3)
    inputs = [list(enumerate(random.permutation(NUM_ROWS).tolist())) for _ in range(64)]

    def call(moves):
        table = torch.arange(NUM_ROWS, device=accelerator.device)
        row_moves.move_rows([table], moves)
        return table

    results = claims.overlapped(accelerator, call, inputs)
    for table, moves in zip(results, inputs, strict=True):
        assert table.tolist() == moved(np.arange(NUM_ROWS), moves).tolist()


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ([(0, 1), (6, 2)], "row 6 in a move: there are 6 rows"),
        ([(0, -1)], "row -1 in a move"),
        ([(0, 2), (1, 3), (4, 2)], "2 rows move to row 2"),
        pytest.param([(0, 1.5)], "moves is float64", id="a fraction"),
        pytest.param([(True, False)], "moves is bool", id="a mask"),
    ],
)
def test_moves_that_cannot_be_are_refused_with_the_row(accelerator, moves, message):
    tables = on_device(accelerator, some_tables())
    call = lambda: row_moves.move_rows(tables, moves)
    expect_refused(accelerator, call, message, unchanged=tables)
