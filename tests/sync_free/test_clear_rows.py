"""clear_rows, after and before the change."""

import numpy as np
import pytest
import torch

from solutions.sync_free.before import clear_rows as before
from solutions.sync_free.sites import clear_rows
from tests.common import claims
from tests.common.refusals import expect_refused

BOTH = pytest.mark.parametrize("module", [clear_rows, before], ids=["ours", "before"])
MAX_REQS = 5


@BOTH
@pytest.mark.parametrize("rows", [[], [2], [3, 0], [1, 1, 4], np.array([4, 2], np.int32)], ids=str)
def test_rows_are_cleared_and_no_others(accelerator, module, rows):
    shapes = [(MAX_REQS, 3), (MAX_REQS,), (MAX_REQS, 2, 2)]
    dtypes = [torch.int32, torch.float32, torch.int64]
    tables = [
        torch.full(shape, 9, dtype=dtype, device=accelerator.device)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    module.clear_rows(rows, tables)
    for table in tables:
        is_zero = (table.reshape(MAX_REQS, -1) == 0).all(1).tolist()
        is_as_it_was = (table.reshape(MAX_REQS, -1) == 9).all(1).tolist()
        assert is_zero == [row in list(rows) for row in range(MAX_REQS)]
        assert is_as_it_was == [row not in list(rows) for row in range(MAX_REQS)]


def test_clearing_is_one_upload_and_a_kernel_for_each_table(accelerator):
    tables = [torch.ones(8, 4, device=accelerator.device) for _ in range(3)]
    call = lambda: clear_rows.clear_rows([5, 1], tables)
    assert claims.expect_no_wait(accelerator, call)["kernels"] == 3
    was = claims.counts_of(accelerator, lambda: before.clear_rows([5, 1], tables))
    assert was["host_syncs"] == 1 + 3


@BOTH
@pytest.mark.parametrize(("rows", "named"), [([1, 4], "request 4"), ([-1], "request -1")])
def test_a_row_that_a_table_lacks_is_refused(accelerator, module, rows, named):
    tables = [torch.ones(size, device=accelerator.device) for size in (5, 4)]
    call = lambda: module.clear_rows(rows, tables)
    expect_refused(accelerator, call, named, unchanged=tables)


@BOTH
@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([1.9], r"rows is float64 \[1\]"),
        ([-0.5], r"rows is float64 \[1\]"),
        ([float("nan")], r"rows is float64 \[1\]"),
        ([True, False], r"rows is bool \[2\]"),
        (["1"], r"rows is <U1 \[1\]"),
        ([[1, 2]], r"rows is int64 \[1, 2\]"),
    ],
    ids=["a fraction", "below 0", "nan", "a mask", "words", "two dimensions"],
)
def test_rows_that_are_no_integers_are_refused(accelerator, module, rows, named):
    tables = [torch.ones(5, device=accelerator.device)]
    call = lambda: module.clear_rows(rows, tables)
    expect_refused(accelerator, call, f"{named}: it must be integers", unchanged=tables)
