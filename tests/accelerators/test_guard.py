"""The guards no_host_syncs and allow_host_sync."""

import asyncio

import pytest
import torch

import debubble


@pytest.fixture
def x(accelerator):
    return torch.ones(4, 4, device=accelerator.device)


def test_a_pageable_copy_that_is_not_to_block_is_refused(accelerator):
    with debubble.no_host_syncs(), pytest.raises(debubble.HostSyncError, match="pageable"):
        torch.ones(4).to(accelerator.device, non_blocking=True)


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
