"""The kernel's first scheme copies the same bytes."""

import pytest

from debubble.accelerator import ByAddress, Work, launch
from solutions.offload import Descriptors
from solutions.offload.choice.upstream_scheme import swap_jobs_kernel

from . import memory


def run(swap, *, num_programs=5, bytes_per_chunk=4096):
    columns = swap.pinned_descriptors
    pieces = Descriptors.of(*swap.descriptors)
    launch(
        swap_jobs_kernel,
        (num_programs,),
        *columns,
        len(pieces),
        WORDS=bytes_per_chunk // 8,
        num_warps=4,
        work=lambda: Work(by_address=ByAddress(pieces.sources, pieces.targets, pieces.sizes)),
    )
    return columns


def expect_copied(accelerator, sizes, *, to_device=True, shift=0, **options):
    swap = memory.swap(accelerator, sizes, to_device=to_device, shift=shift)
    _held = run(swap, **options)
    swap.expect_copied()


@pytest.mark.parametrize("to_device", [True, False])
def test_pieces_of_all_sizes_arrive_and_nothing_else_changes(accelerator, to_device):
    expect_copied(accelerator, memory.FACTS_SIZES, to_device=to_device)


@pytest.mark.parametrize("num_words", range(1, 10))
def test_tails_of_every_length(accelerator, num_words):
    expect_copied(accelerator, [8 * num_words] * 3, bytes_per_chunk=32, shift=8)


@pytest.mark.parametrize("num_programs", [1, 2, 4, 5, 9])
def test_any_number_of_programs(accelerator, num_programs):
    expect_copied(accelerator, [56, 64] * 2, num_programs=num_programs, bytes_per_chunk=32)


def test_a_job_of_no_bytes_is_passed_over(accelerator):
    expect_copied(accelerator, [0, 8, 0], num_programs=1)
