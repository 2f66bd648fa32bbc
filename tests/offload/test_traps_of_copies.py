"""Faults of copied blocks found upstream, in review or after the merge.

Each test also runs naive code and shows that it misbehaves, while ours does not.
"""

import pytest
import torch
import triton
import triton.language as tl

import debubble
from debubble.accelerator import ByAddress, Work, launch
from solutions.offload import Descriptors, copy_batch, swap_blocks_batch
from solutions.offload.choice.upstream_scheme import swap_jobs_kernel
from solutions.offload.swap_blocks import COMPILED, _swap_blocks_kernel
from tests.common import claims
from tests.gate import closed_gate

from . import memory
from .test_dma import calls_of


def naive_launch(accelerator, swap, columns=None):
    """Launches the job kernel without any check of the descriptors. (The naive way.)"""
    pieces = Descriptors.of(*swap.descriptors)
    columns = columns or [
        column.pin_memory().to(accelerator.device, non_blocking=True) for column in swap.descriptors
    ]
    launch(
        swap_jobs_kernel,
        (4,),
        *columns,
        len(pieces),
        WORDS=8,
        work=lambda: Work(by_address=ByAddress(pieces.sources, pieces.targets, pieces.sizes)),
    )


def ours(swap):
    swap_blocks_batch(*swap.descriptors, bytes_per_chunk=64)


def test_trap_1_unpinned_descriptors_make_nobody_wait(accelerator):
    swap = memory.swap(accelerator, [64] * 16)

    def naive():
        columns = [column.to(accelerator.device) for column in swap.descriptors]
        naive_launch(accelerator, swap, columns)

    counts = claims.counts_of(accelerator, naive)
    assert (counts["h2d_pageable"], counts["h2d_pinned"], counts["host_syncs"]) == (3, 0, 3)
    with pytest.raises(debubble.HostSyncError), debubble.no_host_syncs():
        naive()
    accelerator.synchronize()

    counts = claims.counts_of(accelerator, lambda: ours(swap))
    assert (counts["h2d_pageable"], counts["h2d_pinned"], counts["host_syncs"]) == (0, 1, 0)
    with debubble.no_host_syncs():
        ours(swap)
    swap.expect_copied()


def test_trap_2_the_launch_is_on_the_stream_of_the_transfer(accelerator):
    """A load waits for work of the transfer's stream, here for the clearing of its blocks. Naive
    code launches on the current stream, and its bytes are cleared later."""

    def loaded_behind_clearing(load):
        """Runs `load` while the clearing of its target is held up on a stream. Returns (swap,
        races, True if the load ended before the clearing)."""
        swap = memory.swap(accelerator, [64] * 16)
        stream = accelerator.stream()
        load(swap, stream)  # what there is to compile
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            with stream:
                gate = closed_gate(accelerator)
                swap.target.zero_()
            with gate:
                load(swap, stream)
                accelerator.current_stream().synchronize()
                came_first = gate.closed
        return swap, timeline.hazards, came_first

    def naive(swap, stream):
        """Launches on the current stream, although the transfer belongs to `stream`."""
        naive_launch(accelerator, swap)

    def on_the_stream(swap, stream):
        with stream:
            ours(swap)

    swap, hazards, came_first = loaded_behind_clearing(naive)
    assert came_first
    if accelerator.modelled:
        assert "unordered_streams" in {hazard.kind for hazard in hazards}
    else:
        assert not swap.target.any(), "what was loaded first is cleared later"

    swap, hazards, _ = loaded_behind_clearing(on_the_stream)
    assert hazards == []
    at_pieces = swap.expected != swap.untouched
    assert torch.equal(swap.target.cpu()[at_pieces], swap.expected[at_pieces])


def test_trap_3_sizes_that_are_no_multiples_of_8_lose_nothing(accelerator):
    swap = memory.swap(accelerator, [60] * 16)
    naive_launch(accelerator, swap)
    accelerator.synchronize()
    lost = (swap.target.cpu() != swap.expected).sum()
    assert 32 <= lost <= 64, "the last 4 bytes of each piece, but for those that were right before"

    swap = memory.swap(accelerator, [60] * 16)
    with pytest.raises(ValueError, match="descriptor 0: 60 bytes: must be a multiple of 8"):
        ours(swap)
    swap.expect_untouched()
    swap.expect_copied_by(copy_batch)


def test_trap_3_addresses_are_looked_at_too(accelerator):
    """Addresses that are no multiple of 8 raise ValueError, although the sizes are. DMA copies
    them."""
    swap = memory.swap(accelerator, [64] * 16, shift=4)
    with pytest.raises(ValueError, match=r"descriptor 0: its source, .* must be a multiple of 8"):
        ours(swap)
    swap.expect_untouched()
    swap.expect_copied_by(copy_batch)


def test_trap_4_a_batch_takes_no_work_on_the_default_stream(accelerator):
    swap = memory.swap(accelerator, [64] * 16)
    with pytest.raises(RuntimeError, match="default stream: enter a stream first"):
        copy_batch(*swap.descriptors)
    swap.expect_untouched()
    ours(swap)  # a kernel does
    swap.expect_copied()

    memory.swap(accelerator, [64] * 16).expect_copied_by(copy_batch)


@pytest.mark.parametrize(("to_device", "side"), [(True, "source"), (False, "target")])
def test_trap_5_pageable_memory_is_refused_before_a_kernel_reads_it(accelerator, to_device, side):
    swap = memory.swap(accelerator, [64] * 16, pinned=False, to_device=to_device)
    if accelerator.name == "sim":  # A GPU's process would be useless after this.
        with pytest.raises(RuntimeError, match="illegal memory access"):
            naive_launch(accelerator, swap)
    with pytest.raises(ValueError, match=f"descriptor 0: its {side}, .* pageable host memory"):
        ours(swap)
    swap.expect_untouched()
    swap.expect_copied_by(copy_batch)


def test_trap_7_long_lists_are_several_calls(accelerator, monkeypatch):
    swap = memory.swap(accelerator, [8] * 60_000, guard=16)
    calls = calls_of(accelerator, monkeypatch, "copy_batch")
    swap.expect_copied_by(copy_batch)
    numbers = [len(sizes) for (_, _, sizes), _ in calls]
    assert sum(numbers) == 60_000
    assert max(numbers) < 51_828


@triton.jit
def naive_swap_kernel(src_addrs, dst_addrs, sizes, num_jobs, WORDS: tl.constexpr):
    lane = tl.arange(0, WORDS)
    for job in range(tl.program_id(0), num_jobs, tl.num_programs(0)):
        source = tl.load(src_addrs + job).to(tl.pointer_type(tl.int64)) + lane
        target = tl.load(dst_addrs + job).to(tl.pointer_type(tl.int64)) + lane
        exists = lane < tl.load(sizes + job) // 8
        tl.store(target, tl.load(source, mask=exists), mask=exists)


NUMBERS = [17, 16, 1, 33, 32]
"""Numbers of pieces that Triton could compile for: it specialises on multiples of 16, and on 1."""


@pytest.fixture
def compiled(monkeypatch):
    """Returns a list to which Triton, from now on, adds the name of each kernel that it
    compiles."""
    names = []
    monkeypatch.setattr(
        triton.knobs.runtime,
        "jit_post_compile_hook",
        lambda *, fn, **_: names.append(fn.name.rpartition(".")[2]),
    )
    return names


@pytest.mark.gpu
def test_trap_9_a_naive_kernel_is_compiled_anew_for_some_numbers_of_pieces(accelerator, compiled):
    for number in NUMBERS:
        swap = memory.swap(accelerator, [64] * number)
        columns = [column.to(accelerator.device) for column in swap.descriptors]
        launch(naive_swap_kernel, (4,), *columns, number, WORDS=8)
        swap.expect_copied()
    assert compiled.count("naive_swap_kernel") == 3


@pytest.mark.gpu
@pytest.mark.parametrize("pinned", [True, False])
def test_trap_9_the_number_of_pieces_compiles_nothing_anew(accelerator, compiled, pinned):
    def our(number):
        swap = memory.swap(accelerator, [64] * number)
        columns = swap.pinned_descriptors if pinned else swap.descriptors
        swap_blocks_batch(*columns, bytes_per_chunk=64, min_n=1)
        swap.expect_copied()

    our(NUMBERS[0])
    compiled.clear()
    for number in NUMBERS[1:]:
        our(number)
    assert compiled == []


def test_trap_9_what_is_compiled_does_not_know_the_number(accelerator, monkeypatch):
    """The number of pieces is an argument of the kernel and not a constant, so no number compiles
    it again. (VARIES in tests/kernels/launches/offload.py says the same of its other arguments.)"""
    calls = calls_of(accelerator, monkeypatch, "launch")
    for number in NUMBERS:
        swap = memory.swap(accelerator, [64] * number)
        swap_blocks_batch(*swap.descriptors, bytes_per_chunk=64, min_n=1)
        swap.expect_copied()
    kernel = _swap_blocks_kernel if accelerator.modelled else COMPILED
    assert [args[0] for args, _ in calls] == [kernel] * len(NUMBERS)
    constants = [
        {name: value for name, value in options.items() if name != "work"} for _, options in calls
    ]
    assert constants == [constants[0]] * len(NUMBERS)
    assert [args[5] for args, _ in calls] == NUMBERS, "an argument, and no constant"
