"""Upstream's scheme: the same bytes, by three uploads."""

from dataclasses import astuple, replace

import pytest

import debubble
from solutions.offload import UPSTREAM, Preset, swap_with_preset
from tests.common import claims

from . import memory

SMALL = Preset(num_programs=3, threshold_bytes=1 << 20, min_n=4, bytes_per_chunk=32)


def test_the_constants_are_upstreams():
    assert astuple(UPSTREAM) == (12, 28 * 1024, 16, 8192)


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("to_device", [True, False])
def test_pieces_of_all_sizes_arrive(accelerator, to_device, pinned):
    swap = memory.swap(accelerator, memory.FACTS_SIZES, to_device=to_device)
    columns = swap.pinned_descriptors if pinned else swap.descriptors
    with accelerator.stream():
        swap_with_preset(*columns)
    swap.expect_copied()


@pytest.mark.parametrize("number", [0, 1, 3, 4, 5])
def test_any_number_of_pieces(accelerator, number):
    swap = memory.swap(accelerator, [72] * number)
    with accelerator.stream():
        swap_with_preset(*swap.descriptors, SMALL)
    swap.expect_copied()


@pytest.mark.parametrize("kind", ["descriptors", "pinned_descriptors", "pool_descriptors"])
def test_three_uploads_one_launch_and_nobody_waits(accelerator, kind):
    swap = memory.swap(accelerator, [72] * 5)
    columns = getattr(swap, kind)
    call = lambda: swap_with_preset(*columns, SMALL)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=3)
    assert (counts["kernels"], counts["h2d_pinned"]) == (1, 3)
    swap.expect_copied()


def test_few_pieces_are_a_dma_batch(accelerator):
    swap = memory.swap(accelerator, [72] * 3)
    stream = accelerator.stream()
    with debubble.record(accelerator) as timeline, stream:
        swap_with_preset(*swap.descriptors, SMALL)
    assert (timeline.counts()["kernels"], timeline.counts()["h2d_pinned"]) == (0, 1)
    swap.expect_copied()


def expect_copied(accelerator, sizes, shift=0, **options):
    """Checks that the kernel alone copies pieces of these sizes."""
    swap = memory.swap(accelerator, sizes, shift=shift)
    with accelerator.stream():
        swap_with_preset(*swap.descriptors, replace(SMALL, min_n=0, **options))
    swap.expect_copied()


@pytest.mark.parametrize("num_words", range(1, 10))
def test_tails_of_every_length(accelerator, num_words):
    expect_copied(accelerator, [8 * num_words] * 3, shift=8)


@pytest.mark.parametrize("num_programs", [1, 2, 4, 5, 9])
def test_any_number_of_programs(accelerator, num_programs):
    expect_copied(accelerator, [56, 64] * 2, num_programs=num_programs)


def test_a_piece_of_no_bytes_is_passed_over(accelerator):
    expect_copied(accelerator, [0, 8, 0], num_programs=1)
