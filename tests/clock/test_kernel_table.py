"""Kernel times by configuration: measured ones, those between, and guesses."""

import math

import pytest
import torch

import debubble
from debubble.clock.configuration import configuration
from debubble.clock.kernel_table import OF_HOPPER, KernelTable, table_for


def row(kind, weights, *measured):
    return {kind: {"general": ["any"], "weights": weights, "measured": list(measured)}}


def product(rows, columns, inner):
    factors = torch.empty(rows, inner), torch.empty(inner, columns)
    return "mm", factors, [torch.empty(rows, columns)], 0


@pytest.fixture
def table():
    kind = configuration(*product(8, 8, 8)[:3]).kinds[0]
    sizes = [2**n for n in range(3, 9)]
    rows = [[m, n, k, m * n * k / 1000] for m in sizes for n in sizes for k in sizes]
    return KernelTable("a GPU", 1e6, row(kind, [1, 1, 1], *rows))


def test_a_measured_size_has_its_measured_time(table):
    assert table.time_of(*product(64, 8, 256)).microseconds == pytest.approx(64 * 8 * 256 / 1000)


def test_a_size_between_has_a_time_between(table):
    found = table.time_of(*product(96, 100, 96))
    assert not found.is_guess
    assert found.microseconds == pytest.approx(96 * 100 * 96 / 1000, rel=0.35)


def test_a_size_far_from_all_is_a_guess(table):
    assert table.time_of(*product(1 << 14, 8, 8)).is_guess
    assert table.time_of("mm", (torch.empty(2, 3), torch.empty(3, 2)), [torch.empty(2, 2)], 0)


def test_an_operator_never_measured_has_no_time(table):
    assert table.time_of("cos", [torch.empty(8)], [torch.empty(8)], 0) is None
    assert table.time_of("cos", [], [], 0) is None


def test_a_sparse_tensor_has_no_time(table):
    crossed = torch.eye(4).to_sparse_csr()
    assert table.time_of("add.Tensor", [crossed, crossed], [crossed], 0) is None


@pytest.mark.parametrize(
    "gpu, slug",
    [
        ("NVIDIA H100 80GB HBM3", OF_HOPPER),
        ("NVIDIA H200", OF_HOPPER),
        ("NVIDIA GH200 480GB", OF_HOPPER),
        ("NVIDIA A100-SXM4-80GB", ""),
    ],
)
def test_a_gpu_without_a_table_has_one_of_the_same_processors_or_none(gpu, slug):
    assert table_for(gpu) == slug


def test_every_stored_time_is_one_and_every_row_has_its_kinds_sizes():
    table = KernelTable.load(OF_HOPPER)
    for kind, of_kind in table._kinds.items():
        for *sizes, microseconds in of_kind["measured"]:
            assert len(sizes) == len(of_kind["weights"]), kind
            assert microseconds > 0 and math.isfinite(microseconds), kind
    for general, exact in table._under.items():
        assert len({len(table._kinds[kind]["weights"]) for kind in exact}) == 1, general


@pytest.mark.sim
def test_the_type_changes_the_time_of_a_kernel(accelerator):
    x = torch.ones(2048, 2048, device=accelerator.device)
    half = x.to(torch.bfloat16)
    times = []
    for call in (lambda: x @ x, lambda: half @ half):
        with debubble.record(accelerator) as timeline:
            call()
        (kernel,) = (e for e in timeline.events if e.kind == "kernel")
        times.append(kernel.duration)
    in_fp32, in_half = times
    assert in_fp32 > 4 * in_half
