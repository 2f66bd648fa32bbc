"""Ten guards on the device itself: the same delay widens the window with and without the guard, and
only the control without it garbles its result.

On a GPU 1,000 attempts without the guard garble at least one result, and 10,000 attempts with it
none. A control that never shows is reported as an expected failure. On sim one attempt of each is
enough, since sim proves the race.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

import debubble
from solutions.common.h2d import async_tensor_h2d
from solutions.common.persistent_arrays import PersistentArrays
from solutions.common.read_back import ReadBack
from solutions.common.staging_ring import StagingRing
from solutions.offload import (
    DescriptorPool,
    KVGroup,
    KVTensors,
    SingleDirectionOffloadingHandler,
    transfers,
)
from solutions.offload.dma import copy_batch
from solutions.offload.swap_blocks import swap_blocks_batch
from solutions.sync_free.sites.row_moves import move_rows

DELAY_MS = 0.2
"""The delay of each attempt, with the guard and without it."""
ATTEMPTS = {True: 10_000, False: 1_000}
"""The number of attempts on a GPU, with the guard and without it."""
SIZE = 4096
Attempt = Callable[[], bool]
"""A function that tries once, and returns True if the result is garbled."""


class Passed:
    """A stand-in for an event that claims to have passed."""

    def record(self, stream=None):
        pass

    def query(self):
        return True

    def synchronize(self):
        pass


def full(value):
    return torch.full((SIZE,), value, dtype=torch.int32)


def differs(tensor, value):
    return bool((tensor.cpu() != value).any())


def a_ring_waits_for_its_slot(accelerator, guarded) -> Attempt:
    ring = StagingRing((SIZE,), torch.int32, 1)
    if not guarded:
        ring.copied = [Passed()]
    targets = [full(0).to(accelerator.device) for _ in range(2)]

    def attempt():
        accelerator.sleep(DELAY_MS)
        for value, target in enumerate(targets, 1):
            ring.upload(full(value), target)
        return differs(targets[0], 1)

    return attempt


def a_download_is_read_after_its_copy(accelerator, guarded) -> Attempt:
    source = full(0).to(accelerator.device)

    def attempt():
        source.add_(1)
        accelerator.sleep(DELAY_MS)
        download = ReadBack(source)
        if not guarded:
            download.arrived = Passed()
        read = download.read().clone()
        return differs(source, read)

    return attempt


def an_upload_has_a_copy_of_the_caller_s_array(accelerator, guarded) -> Attempt:
    values = full(1).pin_memory()

    def attempt():
        values.fill_(1)
        accelerator.sleep(DELAY_MS)
        if guarded:
            found = async_tensor_h2d(values, accelerator.device)
        else:
            found = values.to(accelerator.device, non_blocking=True)
        values.fill_(2)
        return differs(found, 1)

    return attempt


def an_upload_waits_for_the_step_that_reads(accelerator, guarded) -> Attempt:
    arrays, side = PersistentArrays({"a": SIZE}, accelerator.device), accelerator.stream()
    stream = accelerator.current_stream() if guarded else side

    def attempt():
        arrays.upload({"a": (np.zeros(0, np.int32), 1)})
        accelerator.sleep(DELAY_MS)
        read = arrays["a"].clone()
        with stream:
            arrays.upload({"a": (np.zeros(0, np.int32), 2)})
        return differs(read, 1)

    return attempt


def rows_are_gathered_before_they_are_written(accelerator, guarded) -> Attempt:
    table = torch.zeros((2, SIZE), dtype=torch.int32, device=accelerator.device)

    def attempt():
        table[0], table[1] = 1, 2
        accelerator.sleep(DELAY_MS)
        if guarded:
            move_rows([table], [(0, 1), (1, 0)])
        else:
            for source, target in ((0, 1), (1, 0)):
                table[target].copy_(table[source])
        return differs(table[0], 2)

    return attempt


def handler_of(accelerator, gpu_to_cpu=False, **options):
    """Returns (KVTensors whose bytes are 1 on the GPU and i + 2 in CPU block i, a handler)."""
    gpu = torch.ones((4, SIZE), dtype=torch.int8, device=accelerator.device)
    cpu = torch.arange(2, 6, dtype=torch.int8)[:, None].repeat(1, SIZE).pin_memory()
    pair = KVTensors(gpu, cpu)
    return pair, SingleDirectionOffloadingHandler(
        [KVGroup([pair])], gpu_to_cpu=gpu_to_cpu, **options
    )


def without_waits(handler, monkeypatch, *left_out):
    """Makes the handler's transfers ignore the compute stream, or the transfer before them."""

    def order(stream, compute_stream, computed, previous_end):
        computed.record(compute_stream)
        if "compute" not in left_out:
            stream.wait_event(computed)
        if previous_end is not None and "previous" not in left_out:
            stream.wait_event(previous_end)

    monkeypatch.setattr(transfers, "order_transfer", order)


def a_load_waits_for_the_last_reader(accelerator, guarded, monkeypatch) -> Attempt:
    pair, handler = handler_of(accelerator)
    if not guarded:
        without_waits(handler, monkeypatch, "compute")

    def attempt():
        pair.gpu.fill_(1)
        accelerator.synchronize()
        accelerator.sleep(DELAY_MS)
        read = pair.gpu.clone()
        handler.transfer_async(0, [[0]], [[1]])
        accelerator.synchronize()
        handler.get_finished()
        return differs(read, 1)

    return attempt


def a_store_waits_for_the_last_writer(accelerator, guarded, monkeypatch) -> Attempt:
    pair, handler = handler_of(accelerator, gpu_to_cpu=True)
    if not guarded:
        without_waits(handler, monkeypatch, "compute")

    def attempt():
        pair.gpu.fill_(1)
        accelerator.synchronize()
        accelerator.sleep(DELAY_MS)
        pair.gpu.fill_(7)
        handler.transfer_async(0, [[0]], [[1]])
        accelerator.synchronize()
        handler.get_finished()
        return differs(pair.cpu[1], 7)

    return attempt


def compute_waits_for_the_load(accelerator, guarded) -> Attempt:
    def slow(*descriptors):
        accelerator.sleep(DELAY_MS)
        copy_batch(*descriptors)

    pair, handler = handler_of(accelerator, swap=slow)

    def attempt():
        pair.gpu.fill_(1)
        accelerator.synchronize()
        handler.transfer_async(0, [[0, 1, 2, 3]], [[1, 1, 1, 1]])
        if guarded:
            handler.make_stream_wait([0])
        read = pair.gpu.clone()
        accelerator.synchronize()
        handler.get_finished()
        return differs(read, 3)

    return attempt


def transfers_run_one_after_another(accelerator, guarded, monkeypatch) -> Attempt:
    delays = []

    def slow_at_first(*descriptors):
        accelerator.sleep(delays.pop())
        copy_batch(*descriptors)

    pair, handler = handler_of(accelerator, swap=slow_at_first)
    if not guarded:
        without_waits(handler, monkeypatch, "previous")

    def attempt():
        delays[:] = [DELAY_MS / 100, DELAY_MS]
        for job in (0, 1):
            handler.transfer_async(job, [[0]], [[job]])
        accelerator.synchronize()
        handler.get_finished()
        return differs(pair.gpu[0], 3)

    return attempt


def descriptors_stay_until_the_kernel_has_read_them(accelerator, guarded) -> Attempt:
    pool = DescriptorPool(1)
    if not guarded:
        give_back = pool.give_back
        pool.give_back = lambda buffers, event: give_back(buffers, Passed())
    kernel = partial(swap_blocks_batch, bytes_per_chunk=64, min_n=0)
    pair, handler = handler_of(accelerator, swap=kernel, pool=pool)

    def attempt():
        pair.gpu.fill_(1)
        accelerator.synchronize()
        accelerator.sleep(DELAY_MS)
        for job in (0, 1):
            handler.transfer_async(job, [[2 * job]], [[job]])
        accelerator.synchronize()
        handler.get_finished()
        return differs(pair.gpu[0], 2)

    return attempt


GUARDS = [
    a_ring_waits_for_its_slot,
    a_download_is_read_after_its_copy,
    an_upload_has_a_copy_of_the_caller_s_array,
    an_upload_waits_for_the_step_that_reads,
    rows_are_gathered_before_they_are_written,
    a_load_waits_for_the_last_reader,
    a_store_waits_for_the_last_writer,
    compute_waits_for_the_load,
    transfers_run_one_after_another,
    descriptors_stay_until_the_kernel_has_read_them,
]


def garbled(accelerator, make, guarded, monkeypatch):
    """Returns how many attempts were garbled or, on sim, 1 if sim has proved a race."""
    more = {"monkeypatch": monkeypatch} if "monkeypatch" in make.__code__.co_varnames else {}
    attempt = make(accelerator, guarded, **more)
    if not accelerator.modelled:
        return sum(attempt() for _ in range(ATTEMPTS[guarded]))
    with debubble.record(accelerator) as timeline:
        is_wrong = attempt()
    return int(is_wrong or bool(timeline.hazards))


@pytest.mark.deep(5)
@pytest.mark.parametrize("make", GUARDS, ids=lambda make: make.__name__)
def test_only_without_its_guard_a_result_is_garbled(accelerator, monkeypatch, make):
    with monkeypatch.context() as patch:
        without = garbled(accelerator, make, False, patch)
    with monkeypatch.context() as patch:
        guarded = garbled(accelerator, make, True, patch)
    print(
        f"{make.__name__}: {without} of {ATTEMPTS[False]:,} garbled without the guard, {guarded} "
        f"of {ATTEMPTS[True]:,} with it, each delayed by {DELAY_MS} ms"
    )
    assert guarded == 0
    if not without and not accelerator.modelled:
        pytest.xfail("the control never shows on this GPU")
    assert without
