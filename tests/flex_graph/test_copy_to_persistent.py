"""copy_to_persistent, and graphs whose inputs move within their memory."""

import pytest
import torch

from solutions.flex_graph.buffers import copy_to_persistent
from tests.common import claims
from tests.common.refusals import expect_refused

from .tables import on_device


def zeros(accelerator, *shape):
    return torch.zeros(shape, dtype=torch.int32, device=accelerator.device)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3), (0,), (1, 0)], ids=str)
def test_it_fills_the_part_of_its_shape_and_nothing_else(accelerator, shape):
    dst = zeros(accelerator, *(size + 2 for size in shape))
    src = torch.ones(shape, dtype=torch.int32, device=accelerator.device)
    view = copy_to_persistent(dst, src)
    assert view.shape == src.shape and view.stride() == dst.stride()
    assert dst.sum().item() == view.sum().item() == src.numel()
    view.fill_(7)
    assert dst.sum().item() == 7 * src.numel()


def test_all_of_the_memory_can_be_used(accelerator):
    dst, src = zeros(accelerator, 2, 2), on_device(accelerator, [[1, 2], [3, 4]])
    assert copy_to_persistent(dst, src).tolist() == dst.tolist() == src.tolist()


def test_a_source_of_any_strides_is_copied(accelerator):
    src = on_device(accelerator, [[1, 2, 3], [4, 5, 6]]).T
    assert copy_to_persistent(zeros(accelerator, 4, 4), src).tolist() == [[1, 4], [2, 5], [3, 6]]


def test_what_lies_there_already_is_not_copied(accelerator):
    dst = zeros(accelerator, 4, 5)
    for src in (dst, dst[:2], dst[:3, :2]):
        counts = claims.counts_of(accelerator, lambda src=src: copy_to_persistent(dst, src))
        assert not any(counts.values())
        assert copy_to_persistent(dst, src) is src


def test_what_lies_elsewhere_in_the_same_memory_is_copied(accelerator):
    dst = on_device(accelerator, [1, 2, 3, 4])
    assert copy_to_persistent(dst, dst[2:]).tolist() == [3, 4]
    assert dst.tolist() == [3, 4, 3, 4]


def test_one_copy_and_no_wait(accelerator):
    dst, src = zeros(accelerator, 4, 5), zeros(accelerator, 4, 3)
    counts = claims.expect_no_wait(accelerator, lambda: copy_to_persistent(dst, src), 0)
    assert counts["kernels"] + counts["d2d"] == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda dst: dst.new_zeros(3, 5), r"of \[3, 5\] for persistent memory of \[2, 5\]"),
        (lambda dst: dst.new_zeros(2, 6), r"of \[2, 6\] for persistent memory of \[2, 5\]"),
        (lambda dst: dst.new_zeros(2), r"torch.int32 \[2\] .* can't be copied to .* \[2, 5\]"),
        (lambda dst: dst.long(), r"torch.int64 \[2, 5\] .* can't be copied to torch.int32"),
        (lambda dst: dst.cpu(), r"\[2, 5\] on cpu can't be copied to"),
    ],
)
def test_what_does_not_fit_is_refused(accelerator, source, message):
    dst = zeros(accelerator, 2, 5)
    src = source(dst)
    expect_refused(accelerator, lambda: copy_to_persistent(dst, src), message, unchanged=(dst,))


def with_strides_of_the_step(dst, src):
    """Copies `src` into the memory of `dst` with the strides of `src`, and returns the view. (The
    naive way: a graph reads with the strides of its capture.)"""
    return dst.as_strided(src.shape, src.stride()).copy_(src)


def replayed(accelerator, copy, steps):
    """Captures a graph that reads the persistent copy of steps[0]. Returns the values that it reads
    when each later step is copied and the graph replayed."""
    dst = zeros(accelerator, 3, 6)
    view = copy(dst, steps[0])
    read = torch.empty_like(view)
    graph, _ = claims.captured(accelerator, lambda: read.copy_(view), warm_up=False)
    results = []
    for step in steps[1:]:
        copy(dst, step)
        graph.replay()
        results.append(read.tolist())
    return results


def test_trap_2_rows_stay_where_a_graph_captured_them(accelerator):
    steps = [
        on_device(accelerator, rows)
        for rows in (
            [[1, 2, 3], [4, 5, 6]],
            [[11, 12, 13, 14], [15, 16, 17, 18]],
            [[21, 22], [23, 24]],
        )
    ]
    kept = replayed(accelerator, copy_to_persistent, steps)
    assert kept == [[[11, 12, 13], [15, 16, 17]], [[21, 22, 13], [23, 24, 17]]]
    moved = replayed(accelerator, with_strides_of_the_step, steps)
    assert moved[0] == [[11, 12, 13], [14, 15, 16]], "the second row begins in the first"
    assert moved[1][1][0] != 23
