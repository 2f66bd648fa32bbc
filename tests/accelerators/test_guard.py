"""The guards no_host_syncs and allow_host_sync."""

import asyncio
import threading

import pytest
import torch

import debubble


@pytest.fixture
def x(accelerator):
    return torch.ones(4, 4, device=accelerator.device)


def test_a_wait_raises_and_names_its_line(x):
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError) as caught:
        x.sum().item()  # the line
    assert "# the line" in str(caught.value)
    assert "makes the host wait" in str(caught.value)


def test_work_without_a_wait_passes(x, accelerator):
    pinned = torch.ones(4, pin_memory=accelerator.pin_memory)
    with debubble.no_host_syncs():
        y = pinned.to(accelerator.device, non_blocking=True) + x
        y[0] = 0.0
        y.to("cpu", non_blocking=True)


def test_a_pageable_copy_that_is_not_to_block_is_refused(accelerator):
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError, match="pageable"):
        torch.ones(4).to(accelerator.device, non_blocking=True)


def test_a_part_of_pinned_memory_with_holes_is_refused(accelerator):
    columns = torch.ones(64, 64, pin_memory=accelerator.pin_memory)[:, :3]
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError, match="pageable"):
        columns.to(accelerator.device, non_blocking=True)


def test_a_copy_into_pageable_memory_is_refused(x):
    target = torch.empty(4, 4)
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError, match="pageable"):
        target.copy_(x, non_blocking=True)


def test_a_synchronisation_is_refused(accelerator):
    event = accelerator.event()
    event.record()
    for wait in (
        accelerator.synchronize,
        accelerator.current_stream().synchronize,
        event.synchronize,
    ):
        with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError, match="synchronize"):
            wait()


def test_printing_is_refused(x):
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError):
        repr(x)


@pytest.mark.sim
def test_a_refused_print_leaves_pytorchs_transforms_on(x):
    """torch.func.hessian still works after a guard refused to print a tensor. The print switches
    PyTorch's transforms off, and the kept error must not keep them off."""
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError) as kept:
        repr(x)
    derivatives = torch.func.hessian(lambda x: (x**3).sum())(x[0])
    assert derivatives.diagonal().tolist() == [6.0] * 4
    assert "repr(x)" in str(kept.value)


def test_a_hole_lets_a_wait_through_and_closes_again(x):
    with debubble.no_host_syncs():
        with debubble.allow_host_sync():
            assert x.sum().item() == 16
        with pytest.raises(debubble.HostSyncError):
            x.sum().item()


def test_the_region_ends_after_an_error(x):
    with pytest.raises(KeyError), debubble.no_host_syncs():
        raise KeyError
    assert x.sum().item() == 16


def test_a_thread_that_was_there_before_may_wait(x):
    seen, go = [], threading.Event()
    worker = threading.Thread(target=lambda: go.wait() and seen.append(x.sum().item()))
    worker.start()
    with debubble.no_host_syncs():
        go.set()
        worker.join()
    assert seen == [16]


def test_nothing_was_changed_by_a_refused_assignment(x, accelerator):
    index = torch.tensor([0, 1], device=accelerator.device)
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError):
        x[index] = 0.0
    assert x.sum().item() == 16


def test_another_task_may_wait(x):
    async def guarded(started: asyncio.Event, done: asyncio.Event):
        with debubble.no_host_syncs():
            started.set()
            await done.wait()
            with pytest.raises(debubble.HostSyncError):
                x.sum().item()

    async def both():
        started, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(guarded(started, done))
        await started.wait()
        total = x.sum().item()
        done.set()
        await task
        return total

    assert asyncio.run(both()) == 16
