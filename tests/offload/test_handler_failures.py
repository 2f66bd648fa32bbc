"""Failures are reported for their job only: no byte is moved, and later jobs run."""

import contextlib
from functools import partial

import pytest
import torch

import debubble
from solutions.offload.dma import copy_batch
from solutions.offload.handler import SingleDirectionOffloadingHandler
from solutions.offload.memory.kv_tensors import KVGroup, KVTensors
from solutions.offload.paths.descriptors import DescriptorPool
from solutions.offload.selection import DmaSwap
from solutions.offload.swap_blocks import swap_blocks_batch
from tests.gate import SHORT_MS, closed_gate
from tests.interrupted import Lines
from tests.offload.kv_case import KVCase

NUM_GPU, NUM_CPU = 16, 8


@pytest.fixture
def case(accelerator):
    """Returns a KVCase of two groups; a CPU block is one GPU block in the first, and three in the
    second."""
    return KVCase(
        accelerator,
        factors=[1, 3],
        pages=[64],
        num_tensors=2,
        num_gpu=NUM_GPU,
        num_cpu=NUM_CPU,
    )


BAD_BLOCKS = [
    (([[16], []], [[0], []]), 0, "group 0: GPU block 16 is out of range: there are 16"),
    (([[-1], []], [[0], []]), 0, "group 0: GPU block -1 is out of range"),
    (([[], [3]], [[], [8]]), 0, "group 1: CPU block 8 is out of range: there are 8"),
    (([[1, 2], []], [[0], []]), 0, "group 0: 2 GPU blocks behind a skip of 0 are part of 2 CPU"),
    (([[1], []], [[0, 1], []]), 0, "group 0: 1 GPU blocks .* 1 CPU blocks of 1, and 2 are given"),
    (([[], [1, 2, 3, 4]], [[], [0]]), 0, "group 1: 4 GPU blocks .* 2 CPU blocks of 3, and 1 are"),
    (
        ([[], [1, 2, 3]], [[], [0]]),
        [0, 1],
        "group 1: 3 GPU blocks behind a skip of 1 are part of 2",
    ),
    (([[], []], [[], [0]]), 0, "group 1: 0 GPU blocks .* 0 CPU blocks of 3, and 1 are given"),
    (([[1], []], [[0], []]), 1, "group 0: a skip of 1 sub-blocks: a CPU block has 1"),
    (([[], [1]], [[], [0]]), [0, 3], "group 1: a skip of 3 sub-blocks: a CPU block has 3"),
    (([[], [1]], [[], [0]]), [0, -1], "group 1: a skip of -1 sub-blocks"),
    (([[1]], [[0], []]), 0, "gpu_blocks has 1 entries for 2 groups"),
    (([[1], []], [[0], [], []]), 0, "cpu_blocks has 3 entries for 2 groups"),
    (([[1], []], [[0], []]), [0], "skip has 1 entries for 2 groups"),
    (([[1.5], []], [[0], []]), 0, r"group 0: GPU blocks are float64 \[1\]: give a list of whole"),
    (([[[1]], []], [[0], []]), 0, r"group 0: GPU blocks are int64 \[1, 1\]"),
]
TWICE = {
    False: ([[4, 5, 4], []], [[0, 1, 2], []]),
    True: ([[4, 5, 6], []], [[1, 0, 1], []]),
}


def expect_nothing_happened(accelerator, case, handler, timeline):
    assert timeline.events == []
    assert handler.get_finished() == []
    case.expect()
    blocks = ([[1], []], [[2], []])
    handler.transfer_async("right", *blocks)
    case.apply(*blocks, gpu_to_cpu=handler.gpu_to_cpu)
    accelerator.synchronize()
    assert [result.success for result in handler.get_finished()] == [True]
    case.expect()


@pytest.mark.parametrize("gpu_to_cpu", [False, True], ids=["load", "store"])
@pytest.mark.parametrize(("blocks", "skip", "message"), BAD_BLOCKS)
def test_blocks_that_there_are_not(accelerator, case, gpu_to_cpu, blocks, skip, message):
    handler = case.handler(gpu_to_cpu=gpu_to_cpu)
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(ValueError, match=f"job 'bad'.*{message}"),
    ):
        handler.transfer_async("bad", *blocks, skip)
    expect_nothing_happened(accelerator, case, handler, timeline)


@pytest.mark.parametrize("gpu_to_cpu", [False, True], ids=["load", "store"])
def test_a_destination_that_is_named_twice(accelerator, case, gpu_to_cpu):
    handler = case.handler(gpu_to_cpu=gpu_to_cpu)
    side = "CPU block 1" if gpu_to_cpu else "GPU block 4"
    with (
        debubble.record(accelerator) as timeline,
        pytest.raises(ValueError, match=f"group 0: {side} is a destination twice"),
    ):
        handler.transfer_async("bad", *TWICE[gpu_to_cpu])
    expect_nothing_happened(accelerator, case, handler, timeline)


@pytest.mark.parametrize("gpu_to_cpu", [False, True], ids=["load", "store"])
def test_a_source_may_be_named_twice(accelerator, case, gpu_to_cpu):
    blocks = TWICE[not gpu_to_cpu]
    handler = case.handler(gpu_to_cpu=gpu_to_cpu)
    handler.transfer_async(0, *blocks)
    case.apply(*blocks, gpu_to_cpu=gpu_to_cpu)
    case.expect()


def test_groups_that_share_memory_write_to_different_blocks(accelerator):
    """Groups may share GPU memory, as layers of two kinds do with one pool, but a load that writes
    to one block twice raises ValueError."""
    gpu = torch.zeros((8, 64), dtype=torch.int8, device=accelerator.device)
    groups = [
        KVGroup([KVTensors(gpu, torch.full((8, 64), value, dtype=torch.int8).pin_memory())])
        for value in (1, 2)
    ]
    handler = SingleDirectionOffloadingHandler(groups, gpu_to_cpu=False)
    with pytest.raises(ValueError, match=r"job 0: descriptor \d: its target, .* overlaps"):
        handler.transfer_async(0, [[2, 3], [4, 3]], [[0, 1], [0, 1]])
    handler.transfer_async(0, [[2, 3], [4, 5]], [[0, 1], [0, 1]])
    accelerator.synchronize()
    assert [result.success for result in handler.get_finished()] == [True]
    assert gpu.cpu()[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 0, 0]


def test_a_job_that_is_not_reported_yet_keeps_its_id(accelerator, case):
    handler = case.handler()
    blocks = ([[1], []], [[2], []])
    handler.transfer_async(3, *blocks)
    with pytest.raises(ValueError, match="job 3 is in use: get_finished has not reported it yet"):
        handler.transfer_async(3, *blocks)
    accelerator.synchronize()
    handler.transfer_async(4, *blocks)
    with pytest.raises(ValueError, match="job 3 is in use"):
        handler.transfer_async(3, *blocks)
    accelerator.synchronize()
    assert [result.job_id for result in handler.get_finished()] == [3, 4]
    handler.transfer_async(3, *blocks)


@pytest.mark.parametrize("gpu_to_cpu", [False, True], ids=["load", "store"])
def test_a_transfer_that_fails_is_reported_and_later_ones_run(accelerator, case, gpu_to_cpu):
    calls = []

    def swap(*descriptors):
        calls.append(len(descriptors[0]))
        if len(calls) == 2:
            raise RuntimeError("the driver refuses: CUDA_ERROR_INVALID_VALUE")
        copy_batch(*descriptors)

    handler = case.handler(gpu_to_cpu=gpu_to_cpu, swap=swap)
    for job_id in range(4):
        blocks = case.blocks(2)
        handler.transfer_async(job_id, *blocks)
        if job_id != 1:
            case.apply(*blocks, gpu_to_cpu=gpu_to_cpu)
    accelerator.synchronize()
    results = handler.get_finished()
    nbytes = 2 * 64 * 2 + 6 * 64 * 2
    assert results == [
        (0, True, nbytes, None),
        (1, False, 0, "the driver refuses: CUDA_ERROR_INVALID_VALUE"),
        (2, True, nbytes, None),
        (3, True, nbytes, None),
    ]
    case.expect()


def test_an_error_without_a_word_is_named_by_its_class(accelerator, case):
    def swap(*descriptors):
        raise MemoryError

    handler = case.handler(swap=swap)
    handler.transfer_async(0, [[1], []], [[2], []])
    accelerator.synchronize()
    assert handler.get_finished() == [(0, False, 0, "MemoryError")]


def test_a_transfer_that_failed_halfway_keeps_its_descriptors_until_that_half_is_done(
    accelerator, case
):
    def swap(*descriptors):
        copy_batch(*(column[:2] for column in descriptors))
        raise RuntimeError("and no further")

    warm = case.handler(swap=swap)
    with closed_gate(accelerator, SHORT_MS):  # Fills the pool with descriptors.
        warm.transfer_async(0, *case.blocks(2))
        warm.transfer_async(1, *case.blocks(2))
    del warm
    handler = case.handler(swap=swap)
    with closed_gate(accelerator):
        handler.transfer_async(0, *case.blocks(2))
        assert handler.get_finished() == [], "its first half is in flight"
        handler.transfer_async(1, *case.blocks(2))
        assert handler.pool.num_buffers == 2
    accelerator.synchronize()
    assert [result.error for result in handler.get_finished()] == ["and no further"] * 2
    handler.transfer_async(2, *case.blocks(2))
    assert handler.pool.num_buffers == 2, "what a failed transfer had is used again"


def test_what_a_kernel_can_t_copy_fails_by_its_descriptor(accelerator):
    """A job with a piece of 13 bytes fails with the descriptor's error if the handler's swap is a
    kernel, and moves no byte."""
    case = KVCase(accelerator, pages=[64], num_tensors=1, num_gpu=16, num_cpu=8, copied_bytes=13)
    kernel = partial(swap_blocks_batch, bytes_per_chunk=64, min_n=0)
    handler = case.handler(swap=kernel)
    handler.transfer_async(0, [[1]], [[2]])
    accelerator.synchronize()
    (result,) = handler.get_finished()
    assert not result.success
    assert "descriptor 0: 13 bytes" in result.error
    case.expect()


def test_pageable_memory_is_refused_at_once(accelerator):
    gpu = torch.zeros((4, 64), dtype=torch.int8, device=accelerator.device)
    pageable = torch.zeros((4, 64), dtype=torch.int8)
    for gpu_to_cpu in (False, True):
        with pytest.raises(ValueError, match="group 0, tensor 0: cpu is pageable host memory"):
            SingleDirectionOffloadingHandler(
                [KVGroup([KVTensors(gpu, pageable)])], gpu_to_cpu=gpu_to_cpu
            )


def test_a_transfer_that_was_interrupted_leaves_nothing_under_way(accelerator, case):
    """A transfer that is interrupted ends before the call raises. It has no job, so no caller would
    wait for it."""

    def interrupted(*descriptors):
        copy_batch(*descriptors)
        raise KeyboardInterrupt

    handler = case.handler(gpu_to_cpu=True, swap=interrupted)
    blocks = ([[1], []], [[2], []])
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(20.0)
        with pytest.raises(KeyboardInterrupt):
            handler.transfer_async("job", *blocks)
        stored = [cpu.clone() for _, cpu in case.wholes]
    assert timeline.hazards == []
    case.apply(*blocks, gpu_to_cpu=True)
    for cpu, (_, right_cpu) in zip(stored, case.expected, strict=True):
        assert torch.equal(cpu, right_cpu)
    assert handler.get_finished() == []


def test_a_transfer_that_was_interrupted_gives_its_descriptors_back(accelerator, case):
    """A transfer that is interrupted returns its descriptor buffers to the pool. Otherwise a pool
    with one buffer would have none left."""

    def interrupted(*descriptors):
        raise KeyboardInterrupt

    pool = DescriptorPool(most_buffers=1)
    handler = case.handler(pool=pool)
    blocks, ours = ([[1], []], [[2], []]), handler.swap
    for swap in (interrupted, interrupted, ours):
        handler.swap = swap
        with contextlib.suppress(KeyboardInterrupt):
            handler.transfer_async("job", *blocks)
    case.apply(*blocks, gpu_to_cpu=False)
    accelerator.synchronize()
    assert [result.success for result in handler.get_finished()] == [True]
    assert pool.num_buffers == 1
    case.expect()


def load_twice(accelerator, handler, lines):
    """Runs two loads with interruptions as `lines` says, and starts each again until it is reported
    as a success."""
    for number in range(2):
        job_id, reported = (number, 0), []
        while not reported:
            with contextlib.suppress(KeyboardInterrupt), lines.traced():
                handler.transfer_async(job_id, [[1], []], [[2], []])
            accelerator.synchronize()
            while not reported:
                with contextlib.suppress(KeyboardInterrupt), lines.traced():
                    reported = handler.get_finished()
                    break
            if not reported:
                job_id = (number, job_id[1] + 1)
        assert [(result.job_id, result.success) for result in reported] == [(job_id, True)]


def test_a_transfer_that_is_interrupted_at_any_line_is_reported_or_was_never_asked_for(
    accelerator, case
):
    # How Triton's interpreter handles an interrupt is up to Triton, so the copy engine copies.
    swap = DmaSwap(any_order=True)

    def handler():
        return case.handler(swap=swap)

    load_twice(accelerator, handler(), lines := Lines())
    for line in range(1, lines.count + 1, 2):
        load_twice(accelerator, handler(), Lines(KeyboardInterrupt(f"at {line}"), [line]))
