"""Simulated work leaves no objects behind, however long it runs."""

import gc
import mmap
import subprocess
import sys
from pathlib import Path
from weakref import ref

import pytest
import torch
import triton
import triton.language as tl

import debubble
from debubble.accelerator import launch
from debubble.contract.python.garbage import no_collection
from debubble.sim.memory.tape import Step

pytestmark = pytest.mark.sim
STATM = Path("/proc/self/statm")


@triton.jit
def store_at(target, first, BLOCK: tl.constexpr):
    tl.store(target + first + tl.arange(0, BLOCK), 7.0)


def alive(*kinds):
    gc.collect()
    return sum(issubclass(type(thing), kinds) for thing in gc.get_objects())


def left_behind(work, kinds=(torch.Tensor, Step)):
    """Returns how many more objects of these kinds exist after work(1000) than after work(20)."""
    work(20)
    before = alive(*kinds)
    work(1000)
    return alive(*kinds) - before


def test_operators_leave_nothing(accelerator):
    x = torch.ones(8, device=accelerator.device)

    def work(times):
        for _ in range(times * 10):
            x.add_(1)
            (x * 2)[1:].sum()

    assert left_behind(work) <= 0


def test_copies_leave_nothing_once_they_are_done(accelerator):
    pinned = torch.ones(8, pin_memory=True)
    x = torch.ones(8, device=accelerator.device)

    def work(times):
        for _ in range(times):
            x.copy_(pinned, non_blocking=True)
            x.to("cpu", non_blocking=True)
        accelerator.synchronize()

    assert left_behind(work) <= 0


def test_an_upload_that_is_done_holds_no_memory_even_if_no_garbage_is_collected(accelerator):
    pinned = torch.zeros(4 << 20, dtype=torch.uint8, pin_memory=True)
    with no_collection():
        x = pinned.to(accelerator.device, non_blocking=True)
        (upload,) = accelerator._device.in_flight.uploads
        sent = ref(upload)
        del upload
        assert not upload_keeps_old_bytes(accelerator)
        accelerator.synchronize()
        assert sent() is None
    assert x.sum().item() == 0


@pytest.mark.skipif(not STATM.exists(), reason="Linux says there how much memory is resident")
def test_a_large_upload_in_flight_takes_the_memory_of_its_target_alone(accelerator):
    accelerator.synchronize()  # While an earlier upload is in flight, steps are kept, not bytes.
    pinned = torch.ones(64 << 20, dtype=torch.uint8, pin_memory=True)
    accelerator.sleep(1)
    before = resident()
    x = pinned.to(accelerator.device, non_blocking=True)
    assert 0.9 < (resident() - before) / pinned.nbytes < 1.2
    before = resident()
    x.add_(1)  # The sent bytes are needed if the host overwrites `pinned` now.
    assert 0.9 < (resident() - before) / pinned.nbytes < 1.2
    pinned[0] = 7
    assert (x[0].item(), x[1].item()) == (8, 2)


def resident():
    """Returns the resident memory of this process in bytes."""
    return int(STATM.read_text().split()[1]) * mmap.PAGESIZE


def upload_keeps_old_bytes(accelerator):
    return bool(accelerator._device.in_flight.tape._before)


@pytest.mark.parametrize("byte", [0, 1 << 20, (4 << 20) - 1])
def test_one_byte_of_a_large_upload_that_is_overwritten_in_flight_is_a_hazard(accelerator, byte):
    pinned = torch.zeros(4 << 20, dtype=torch.uint8, pin_memory=True)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1)
        x = pinned.to(accelerator.device, non_blocking=True)
        y = x + 1
        pinned[byte] = 7
    assert [hazard.kind for hazard in timeline.hazards] == ["overwritten_in_flight"]
    assert (x[byte].item(), y[byte].item(), y.sum().item()) == (7, 8, (4 << 20) + 7)


def test_a_loop_that_never_waits_keeps_no_more_than_what_is_under_way(accelerator):
    pinned = torch.ones(8, pin_memory=True)
    x = torch.ones(8, device=accelerator.device)

    def work(times):
        for _ in range(times):
            x.copy_(pinned, non_blocking=True)
            x.mul_(2)

    assert left_behind(work) < 100


def test_replays_leave_nothing(accelerator):
    x = torch.ones(8, device=accelerator.device)
    graph = accelerator.graph()
    with graph.capture():
        x * 2 + 1

    def work(times):
        for _ in range(times):
            graph.replay()

    assert left_behind(work) <= 0


def test_a_graph_that_is_dropped_leaves_its_inputs_free_of_it(accelerator):
    x = torch.ones(8, device=accelerator.device)

    def work(times):
        for _ in range(times // 10):
            graph = accelerator.graph()
            with graph.capture():
                x + 1

    assert left_behind(work) <= 0
    assert not x.block.watchers


def test_recordings_leave_nothing(accelerator):
    x = torch.ones(8, device=accelerator.device)

    def work(times):
        for _ in range(times // 10):
            with debubble.record(accelerator):
                (x + 1).sum().item()

    assert left_behind(work) <= 0


@pytest.mark.parametrize(
    ("first", "where"), [(6, "0 bytes after its end"), (-4, "16 bytes before its start")]
)
def test_a_kernel_that_writes_beside_its_memory_is_stopped(accelerator, first, where):
    x = torch.zeros(6, device=accelerator.device)
    with pytest.raises(RuntimeError, match=rf"store_at wrote outside .* shape \(6,\), {where}"):
        launch(store_at, (1,), x, first, BLOCK=4)
    assert x.tolist() == [0.0] * 6


def test_a_kernel_writes_what_it_is_meant_to_through_a_view(accelerator):
    x = torch.zeros(3, 6, device=accelerator.device)
    launch(store_at, (1,), x[1, 1:], 1, BLOCK=4)
    assert x[1].tolist() == [0.0, 0.0, 7.0, 7.0, 7.0, 7.0]
    assert x[0].sum().item() == x[2].sum().item() == 0


def test_a_kernel_can_not_be_given_pageable_memory(accelerator):
    with pytest.raises(ValueError, match=r"store_at was given .* \(6,\) in pageable host memory"):
        launch(store_at, (1,), torch.zeros(6), 0, BLOCK=4)


ENDS_LATE = """
import json, sys
import torch, debubble
accelerator = debubble.accelerator("sim")
json.kept = torch.ones(4, device=accelerator.device)
with accelerator.stream():
    json.kept.add_(1)
json.kept.add_(1)
sys.kept = dict(sys.modules)
"""
"""A program whose tensor is freed after Python has cleared the names of debubble's modules."""


def test_a_tensor_that_lives_longer_than_the_names_of_our_modules_is_freed_silently():
    run = subprocess.run([sys.executable, "-c", ENDS_LATE], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
