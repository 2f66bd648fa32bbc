"""Faults of transfers: the naive code misbehaves, and ours does not.

The traps of the copies themselves are in test_traps_of_copies; trap 11 is in test_host_memory.
"""

from functools import partial

import pytest
import torch

import debubble
from solutions.offload import handler as handler_module
from solutions.offload import transfers
from solutions.offload.choice.presets import UPSTREAM
from solutions.offload.dma import copy_batch
from solutions.offload.handler import SingleDirectionOffloadingHandler
from solutions.offload.memory.kv_tensors import KVGroup, KVTensors
from solutions.offload.paths.descriptors import DescriptorPool
from solutions.offload.selection import _select_swap_blocks_fn
from solutions.offload.swap_blocks import swap_blocks_batch
from tests.gate import LONG_MS, SHORT_MS, closed_gate

from .times import crossover_of

KERNEL = partial(swap_blocks_batch, bytes_per_chunk=64, min_n=0)


def layer(accelerator, num_blocks=8, page=64, copied_bytes=None):
    """Returns the KVTensors of a layer: all bytes of the GPU blocks are 0, and every byte of CPU
    block i is i + 1."""
    gpu = torch.zeros((num_blocks, page), dtype=torch.int8, device=accelerator.device)
    numbers = torch.arange(1, num_blocks + 1, dtype=torch.int8)
    cpu = numbers[:, None].expand(num_blocks, page).contiguous().pin_memory()
    return KVTensors(gpu, cpu, copied_bytes)


def handler_of(pair, *, gpu_to_cpu=False, **options):
    return SingleDirectionOffloadingHandler([KVGroup([pair])], gpu_to_cpu=gpu_to_cpu, **options)


def first_bytes(tensor):
    """Returns the first byte of each block. Raises AssertionError unless all bytes of a block are
    equal."""
    rows = tensor.cpu()
    assert bool((rows == rows[:, :1]).all())
    return rows[:, 0].tolist()


def test_trap_2_the_copy_is_queued_where_its_end_is_recorded(accelerator):
    elsewhere = accelerator.stream()
    gates = []

    def naive_swap(*descriptors):
        with elsewhere:
            gates.append(closed_gate(accelerator))
            copy_batch(*descriptors)

    def our_swap(*descriptors):
        accelerator.sleep(20.0)
        copy_batch(*descriptors)

    def is_there_when_it_is_reported(swap):
        """Runs a load with this `swap`, waits for it, and returns True if the copy on the other
        stream is done by then."""
        handler = handler_of(layer(accelerator), swap=swap)
        accelerator.synchronize()
        handler.transfer_async(0, [[1]], [[2]])
        handler.wait([0])
        assert [result.success for result in handler.get_finished()] == [True]
        return elsewhere.query()

    assert is_there_when_it_is_reported(our_swap)
    assert not is_there_when_it_is_reported(naive_swap)
    gates[-1].open()
    accelerator.synchronize()


def fifo_only(stream, compute_stream, computed, previous_end):
    """Makes a load wait for the previous transfer only. (The naive way: a load reads no computed
    memory, so it seems to have nothing else to wait for.)"""
    if previous_end is not None:
        stream.wait_event(previous_end)


@pytest.mark.parametrize("swap", [copy_batch, KERNEL], ids=["dma", "kernel"])
def test_trap_6_a_load_waits_for_the_compute_stream(accelerator, monkeypatch, swap):
    """Blocks that attention still reads are not overwritten: 142 of 3,300 answers were garbled
    (vLLM #47291)."""

    def load_behind_zeroing(waits):
        """Runs a load while the zeroing of its blocks is held up. `waits` says if the load waits
        for it. Returns (races, True if the loaded bytes are right)."""
        pair = layer(accelerator)
        handler = handler_of(pair, swap=swap)
        handler.transfer_async("warm", [[7]], [[7]])
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            with closed_gate(accelerator, SHORT_MS if waits else LONG_MS):
                pair.gpu[:4].zero_()  # the blocks were another request's
                handler.transfer_async(0, [[1, 3]], [[5, 6]])
                handler.wait([0])
            accelerator.synchronize()
        return timeline.hazards, first_bytes(pair.gpu) == [0, 6, 0, 7, 0, 0, 0, 8]

    with monkeypatch.context() as patch:
        patch.setattr(transfers, "order_transfer", fifo_only)
        naive_hazards, naive_is_right = load_behind_zeroing(waits=False)
    if accelerator.modelled:
        assert {hazard.kind for hazard in naive_hazards} == {"unordered_streams"}
    else:
        assert not naive_is_right, "the zeroing came after the load"
    hazards, is_right = load_behind_zeroing(waits=True)
    assert hazards == [], "the load doesn't wait for the work that still uses its blocks"
    assert is_right


def test_trap_6_a_store_waits_for_the_compute_stream(accelerator, monkeypatch):
    def store_behind_compute(waits):
        pair = layer(accelerator)
        handler = handler_of(pair, gpu_to_cpu=True)
        handler.transfer_async("warm", [[7]], [[7]])
        pair.gpu[2].fill_(100)
        accelerator.synchronize()
        pair.cpu[7] = 8
        with debubble.record(accelerator) as timeline:
            with closed_gate(accelerator, SHORT_MS if waits else LONG_MS):
                pair.gpu[1].fill_(100)
                handler.transfer_async(0, [[1]], [[5]])
                handler.wait([0])
            accelerator.synchronize()
        kinds = {hazard.kind for hazard in timeline.hazards}
        return kinds, first_bytes(pair.cpu) == [1, 2, 3, 4, 5, 100, 7, 8]

    with monkeypatch.context() as patch:
        patch.setattr(transfers, "order_transfer", fifo_only)
        naive_hazards, naive_is_right = store_behind_compute(waits=False)
    assert naive_hazards == {"unordered_streams"} if accelerator.modelled else not naive_is_right
    assert store_behind_compute(waits=True) == (set(), True)


def test_trap_8_the_bytes_that_are_copied_decide_and_not_the_page(accelerator, monkeypatch):
    """The path is chosen by the copied bytes, 4 KiB, and not by the page of 64 KiB. (Upstream
    leaves pages from 28 KiB on to the DMA engine.)"""
    pair = layer(accelerator, page=64 * 1024, copied_bytes=4096)
    naive = _select_swap_blocks_fn([pair.page], gpu_to_cpu=False, preset=UPSTREAM)
    assert naive.name == "dma"

    def by_preset(sizes, *, gpu_to_cpu):
        return _select_swap_blocks_fn(sizes, gpu_to_cpu=gpu_to_cpu, preset=UPSTREAM)

    monkeypatch.setattr(handler_module, "_select_swap_blocks_fn", by_preset)
    handler = handler_of(pair)
    assert handler.swap.name == "preset"
    handler.transfer_async(0, [[1, 2]], [[5, 6]])
    accelerator.synchronize()
    assert [result.num_bytes for result in handler.get_finished()] == [2 * 4096]
    assert pair.gpu[:, :4096].cpu()[:, 4095].tolist() == [0, 6, 7, 0, 0, 0, 0, 0]
    assert not pair.gpu[:, 4096:].any().item()


def test_trap_8_whoever_copies_is_told_of_merged_pieces(accelerator):
    """The swap function gets merged pieces: sixteen adjacent pages are one piece of sixteen times
    the size."""
    seen = {}

    def sizes_of(merge):
        def swap(*descriptors):
            seen[merge] = descriptors[2].tolist()
            copy_batch(*descriptors)

        pair = layer(accelerator, num_blocks=40)
        handler = handler_of(pair, swap=swap, merge=merge)
        handler.transfer_async(0, [[*range(3, 19), 30]], [[*range(20, 36), 2]])
        accelerator.synchronize()
        expected = [0] * 40
        expected[3:19], expected[30] = range(21, 37), 3
        assert first_bytes(pair.gpu) == expected
        return seen[merge]

    naive, ours = sizes_of(merge=False), sizes_of(merge=True)
    assert naive == [64] * 17
    assert ours == [16 * 64, 64]


def test_trap_8_the_path_is_that_of_the_merged_pieces(accelerator):
    """The path is chosen for the merged pieces: one merged piece suits the DMA engine, and the
    sixteen pieces before it would suit the kernel."""

    def time_us(path, _, count):
        return {"dma": 2.0 * count, "kernel": 10.0}[path]

    crossover = crossover_of(time_us, counts=(1, 16))

    def kernels_of(merge):
        pair = layer(accelerator, num_blocks=40)
        swap = _select_swap_blocks_fn([pair.page], gpu_to_cpu=False, crossover=crossover)
        swap.warm_up()
        handler = handler_of(pair, swap=swap, merge=merge)
        with debubble.record(accelerator) as timeline:
            handler.transfer_async(0, [[*range(3, 19)]], [[*range(20, 36)]])
            accelerator.synchronize()
        assert first_bytes(pair.gpu) == [0] * 3 + [*range(21, 37)] + [0] * 21
        return timeline.counts()["kernels"]

    assert (kernels_of(merge=False), kernels_of(merge=True)) == (1, 0)


def test_trap_8_pages_that_a_kernel_can_t_copy_are_left_to_the_dma_engine(accelerator):
    """Pages of 60 bytes are copied by DMA, even if only 56 bytes of each are copied: a kernel
    can't, since they have any alignment."""
    pair = layer(accelerator, page=60, copied_bytes=56)
    naive = _select_swap_blocks_fn([pair.copied_bytes], gpu_to_cpu=False, preset=UPSTREAM)
    assert naive.name == "preset"
    handler = handler_of(pair)
    assert handler.swap.name == "dma"
    handler.transfer_async(0, [[1]], [[5]])
    accelerator.synchronize()
    assert [result.error for result in handler.get_finished()] == [None]


def test_trap_9_what_is_compiled_is_compiled_at_construction(accelerator, monkeypatch):
    calls = []

    class Swap:
        def __call__(self, *descriptors):
            calls.append("swap")

        def warm_up(self):
            calls.append("warm up")

    monkeypatch.setattr(handler_module, "_select_swap_blocks_fn", lambda *_, **__: Swap())
    handler = handler_of(layer(accelerator))
    assert calls == ["warm up"]
    for job_id in range(3):
        handler.transfer_async(job_id, [[1]], [[2]])
    assert calls == ["warm up"] + ["swap"] * 3


class ReusesTooEarly(DescriptorPool):
    """A naive pool: it reuses buffers at once, as if a queued copy had already read its
    descriptors."""

    def give_back(self, buffers, event):
        self._free.append(buffers)


def test_trap_10_descriptors_stay_until_the_copy_is_done(accelerator):
    def three_loads(pool, at_most_ms=SHORT_MS):
        pair = layer(accelerator)
        handler = handler_of(pair, swap=KERNEL, pool=pool)
        handler.transfer_async("warm", [[7]], [[7]])
        accelerator.synchronize()
        handler.get_finished()
        with debubble.record(accelerator) as timeline:
            with closed_gate(accelerator, at_most_ms):
                for job_id in range(3):
                    handler.transfer_async(job_id, [[job_id]], [[job_id + 3]])
            accelerator.synchronize()
        kinds = {hazard.kind for hazard in timeline.hazards}
        assert [result.success for result in handler.get_finished()] == [True] * 3
        return kinds, first_bytes(pair.gpu)

    hazards, arrived = three_loads(ReusesTooEarly(), LONG_MS)
    if accelerator.modelled:
        assert hazards == {"overwritten_in_flight"}
    # All three kernels read the descriptors of the last one.
    assert arrived == [0, 0, 6, 0, 0, 0, 0, 8]
    for most_buffers in (1, 2, None):
        assert three_loads(DescriptorPool(most_buffers)) == (set(), [4, 5, 6, 0, 0, 0, 0, 8])
