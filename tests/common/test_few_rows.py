"""Products of few tokens with a large weight, compared with PyTorch in double precision."""

import pytest
import torch
import torch.nn.functional as F

from solutions.common.decoder import few_rows
from solutions.common.decoder.few_rows import (
    COLUMNS,
    MOST_ROWS,
    ROWS,
    few_rows_linear,
    gated_linear,
    linear,
    tile_of,
)
from tests.common import claims

TOLERANCE = {torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""The largest error relative to the largest result, by type."""


def random_factors(accelerator, num_tokens, rows, columns, dtype=torch.bfloat16):
    random = torch.Generator().manual_seed(1)
    shapes = (num_tokens, columns), (rows, columns)
    return [torch.randn(s, generator=random).to(dtype).to(accelerator.device) for s in shapes]


def expect_right(inputs, weight, call=few_rows_linear):
    right = inputs.cpu().double() @ weight.cpu().double().T
    found = call(inputs, weight)
    assert found.dtype == inputs.dtype
    assert found.shape == right.shape
    assert (found.cpu() - right).abs().max() <= TOLERANCE[found.dtype] * right.abs().max()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("num_tokens", [1, 7, MOST_ROWS])
def test_it_is_the_product(accelerator, num_tokens, dtype):
    expect_right(*random_factors(accelerator, num_tokens, 3 * ROWS, 2 * COLUMNS, dtype))


def test_what_a_token_gets_does_not_depend_on_the_others(accelerator):
    inputs, weight = random_factors(accelerator, MOST_ROWS, ROWS, 2 * COLUMNS)
    together = few_rows_linear(inputs, weight).cpu()
    for rows in (slice(0, 1), slice(3, 8)):
        assert few_rows_linear(inputs[rows].contiguous(), weight).cpu().equal(together[rows])


def test_one_launch_and_nobody_waits(accelerator):
    factors = random_factors(accelerator, 3, ROWS, COLUMNS)
    call = lambda: few_rows_linear(*factors)
    assert claims.expect_no_wait(accelerator, call, 0)["kernels"] == 1


@pytest.mark.parametrize("tile", [few_rows.SMALLEST, few_rows.LARGER, few_rows.MANY_ROWS], ids=str)
@pytest.mark.parametrize("gates", [False, True])
def test_each_tile_and_its_gates(accelerator, monkeypatch, tile, gates):
    inputs, weight = random_factors(accelerator, 5, 128, 512)
    monkeypatch.setattr(few_rows, "tile_of", lambda weight: tile)
    right = inputs.cpu().double() @ weight.cpu().double().T / 16
    if gates:
        right = F.silu(right[:, :64]) * right[:, 64:]
    found = few_rows_linear(inputs / 16, weight, gates=gates)
    assert found.is_contiguous()
    assert found.shape == right.shape
    assert (found.cpu() - right).abs().max() <= TOLERANCE[found.dtype] * right.abs().max()


@pytest.mark.parametrize(
    ("rows", "columns", "tile"),
    [
        (28_672, 4096, few_rows.MANY_ROWS),
        (4096, 14_336, few_rows.LARGER),
        (4128, 384, few_rows.SMALLEST),
        (16_416, 1024, few_rows.SMALLEST),
    ],
)
def test_a_tile_divides_its_weight(rows, columns, tile):
    assert tile_of(torch.empty(rows, columns, device="meta")) is tile


@pytest.mark.parametrize("gates", [False, True])
def test_sim_computes_a_large_weight_as_the_kernel_would(accelerator, monkeypatch, gates):
    inputs, weight = random_factors(accelerator, 3, 2 * ROWS, 2 * COLUMNS)
    call = lambda: few_rows_linear(inputs / 16, weight, gates=gates)
    right = call().cpu()
    monkeypatch.setattr(few_rows, "LARGE", 0)
    monkeypatch.setattr(few_rows, "FEWEST", 0)
    assert (call().cpu() - right).abs().max() <= 2 * TOLERANCE[right.dtype] * right.abs().max()
    gated = lambda: (gated_linear if gates else linear)(inputs, weight)
    assert claims.counts_of(accelerator, gated)["kernels"] == 1


def test_gates_of_many_tokens_are_a_launch_of_their_own(accelerator):
    inputs, weight = random_factors(accelerator, MOST_ROWS + 1, 2 * ROWS, COLUMNS)
    gate, up = (inputs.cpu().double() @ weight.cpu().double().T / 16).chunk(2, 1)
    right = F.silu(gate) * up
    found = gated_linear(inputs / 16, weight)
    assert (found.cpu() - right).abs().max() <= 2 * TOLERANCE[found.dtype] * right.abs().max()
    assert claims.counts_of(accelerator, lambda: gated_linear(inputs, weight))["kernels"] == 2


def test_small_weights_and_many_tokens_are_left_to_pytorch(accelerator, monkeypatch):
    called = []
    monkeypatch.setattr(few_rows, "few_rows_linear", lambda *factors: called.append(factors))
    for num_tokens, rows, columns, dtype in (
        (3, ROWS, COLUMNS, torch.bfloat16),
        (MOST_ROWS + 1, 32_768, COLUMNS, torch.bfloat16),
        (3, 32_768, COLUMNS, torch.float32),
        (3, 32_769, COLUMNS, torch.bfloat16),
        (3, few_rows.FEWEST - ROWS, 16 * COLUMNS, torch.bfloat16),
    ):
        inputs, weight = random_factors(accelerator, num_tokens, rows, columns, dtype)
        assert linear(inputs, weight).shape == (num_tokens, rows)
    assert called == []


@pytest.mark.gpu
def test_a_large_weight_is_read_by_the_kernel(accelerator):
    inputs, weight = random_factors(accelerator, 8, 32_768, COLUMNS)
    expect_right(inputs, weight, linear)
    assert claims.counts_of(accelerator, lambda: linear(inputs, weight))["kernels"] == 1
    assert linear(inputs, weight).equal(few_rows_linear(inputs, weight))


@pytest.mark.gpu
@pytest.mark.gpu_memory(6)
def test_a_weight_may_have_more_numbers_than_32_bits_count(accelerator):
    rows, columns = 2**31 // COLUMNS + ROWS, COLUMNS
    weight = torch.zeros(rows, columns, dtype=torch.bfloat16, device=accelerator.device)
    weight[-1] = 1
    inputs = torch.ones(2, columns, dtype=torch.bfloat16, device=accelerator.device)
    found = few_rows_linear(inputs, weight)
    assert found[:, -1].tolist() == [columns, columns]
    assert not found[:, :-1].any()


REFUSED = {
    "types": (lambda i, w: (i.float(), w), "inputs are torch.float32 and weight is torch.bfloat16"),
    "no half": (lambda i, w: (i.float(), w.float()), "make both bfloat16, or both float16"),
    "dimensions": (lambda i, w: (i[0], w), r"inputs has shape \[256\]"),
    "strides": (lambda i, w: (i, w[:, ::2]), r"weight has shape \[64, 128\]: make it contiguous"),
    "nobody": (lambda i, w: (i[:0], w), "0 tokens: give 1 to 16"),
    "too many": (lambda i, w: (i.repeat(6, 1), w), "18 tokens"),
    "columns": (lambda i, w: (i[:, :128].contiguous(), w), "128 columns and weight 256"),
    "rows": (lambda i, w: (i, w[:33]), "33 x 256: make its rows a multiple of 32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_factors_that_do_not_fit_are_refused(accelerator, case):
    change, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        few_rows_linear(*change(*random_factors(accelerator, 3, 2 * ROWS, 2 * COLUMNS)))
