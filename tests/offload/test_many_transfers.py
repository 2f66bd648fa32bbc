"""Thousands of transfers over few buffers, and both directions with the manager between them."""

import random
from functools import partial

import numpy as np
import pytest
import torch

import debubble
from solutions.offload.dma import copy_batch
from solutions.offload.handler import SingleDirectionOffloadingHandler
from solutions.offload.memory.kv_tensors import KVGroup, KVTensors
from solutions.offload.memory.lru_blocks import LRUBlockManager, prefix_hashes
from solutions.offload.paths.descriptors import DescriptorPool
from solutions.offload.swap_blocks import swap_blocks_batch
from tests.gate import SHORT_MS, closed_gate
from tests.offload.kv_case import KVCase

TRANSFERS = 10_000
KERNEL = partial(swap_blocks_batch, bytes_per_chunk=64, min_n=0)


class Shuffled:
    """One tensor on each side, and a handler that copies its blocks in one direction. `gpu` and
    `cpu` are the expected contents."""

    def __init__(self, accelerator, gpu_to_cpu, swap, most_buffers):
        self.random = np.random.default_rng(int(gpu_to_cpu))
        self.gpu, self.cpu = (
            self.random.integers(-128, 128, (blocks, 16), dtype=np.int8) for blocks in (32, 64)
        )
        self.on_gpu = torch.from_numpy(self.gpu.copy()).to(accelerator.device)
        self.on_cpu = torch.from_numpy(self.cpu.copy()).pin_memory()
        self.handler = SingleDirectionOffloadingHandler(
            [KVGroup([KVTensors(self.on_gpu, self.on_cpu)])],
            gpu_to_cpu=gpu_to_cpu,
            swap=swap,
            pool=DescriptorPool(most_buffers),
        )
        self.results = []

    def transfer(self, job_id):
        """Starts a transfer of 1 to 3 random blocks to random places, and updates the expected
        contents."""
        count = int(self.random.integers(1, 4))
        gpu_blocks, cpu_blocks = (self.random.permutation(of)[:count] for of in (32, 64))
        self.handler.transfer_async(job_id, [gpu_blocks], [cpu_blocks])
        if self.handler.gpu_to_cpu:
            self.cpu[cpu_blocks] = self.gpu[gpu_blocks]
        else:
            self.gpu[gpu_blocks] = self.cpu[cpu_blocks]

    def expect_all_of(self, job_ids):
        self.handler.wait(job_ids)
        self.results += self.handler.get_finished()
        assert [result.job_id for result in self.results] == list(job_ids)
        assert all(result.success for result in self.results)
        assert np.array_equal(self.on_gpu.cpu().numpy(), self.gpu)
        assert np.array_equal(self.on_cpu.numpy(), self.cpu)


@pytest.mark.timeout(600)
@pytest.mark.deep
def test_10_000_transfers_over_a_small_pool(accelerator):
    """10,000 transfers through pools of four buffers are right, half of them loads and half stores,
    in tensors of their own."""
    both = [
        Shuffled(accelerator, gpu_to_cpu, copy_batch, most_buffers=4)
        for gpu_to_cpu in (False, True)
    ]
    with debubble.record(accelerator, most_calls=1) as timeline:
        for job_id in range(TRANSFERS // 2):
            for case in both:
                case.transfer(job_id)
                if job_id % 1000 == 0:
                    case.results += case.handler.get_finished()
        for case in both:
            case.expect_all_of(range(TRANSFERS // 2))
            assert case.handler.pool.num_buffers <= 4
    assert timeline.hazards == []


@pytest.mark.parametrize("most_buffers", [1, 4, None])
def test_a_kernel_finds_its_descriptors_as_they_were(accelerator, most_buffers):
    """A kernel reads the right descriptors when it runs, although the pool reuses its buffers: 40
    loads are queued while the device is busy."""
    case = Shuffled(accelerator, gpu_to_cpu=False, swap=KERNEL, most_buffers=most_buffers)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(50.0)
        for job_id in range(40):
            case.transfer(job_id)
        case.expect_all_of(range(40))
    assert timeline.hazards == []
    assert case.handler.pool.num_buffers <= (most_buffers or 40)


def test_20_000_pieces_of_128_bytes(accelerator):
    case = KVCase(accelerator, pages=[128], num_gpu=5000, num_cpu=5000)
    handler = case.handler(swap=copy_batch if accelerator.modelled else None)
    # One side is descending, so that no piece continues another.
    blocks = ([list(range(5000))], [list(range(4999, -1, -1))])
    handler.transfer_async(0, *blocks)
    assert len(handler._in_flight[0].batch_src) == 20_000
    accelerator.synchronize()
    assert handler.get_finished() == [(0, True, 20_000 * 128, None)]
    for pair in case.groups[0].tensors:
        assert torch.equal(pair.gpu.cpu(), pair.cpu.flip(0))
    for (gpu, cpu), (right_gpu, right_cpu) in zip(case.wholes, case.expected, strict=True):
        assert torch.equal(gpu[[0, -1]].cpu(), right_gpu[[0, -1]])
        assert torch.equal(cpu, right_cpu)


class Offloading:
    """A simulation of offloading: prefixes are computed on the GPU, stored, evicted, found again
    and loaded.

    The bytes of a block follow from its hash, so a block in a wrong place is detected.
    """

    NUM_GPU, NUM_CPU, PAGE = 24, 8, 16

    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.gpu = torch.zeros(
            (self.NUM_GPU, self.PAGE), dtype=torch.int8, device=accelerator.device
        )
        cpu = torch.zeros((self.NUM_CPU, self.PAGE), dtype=torch.int8).pin_memory()
        groups = [KVGroup([KVTensors(self.gpu, cpu)])]
        self.manager = LRUBlockManager(self.NUM_CPU)
        self.load, self.store = (
            SingleDirectionOffloadingHandler(groups, gpu_to_cpu=gpu_to_cpu, swap=self._swap)
            for gpu_to_cpu in (False, True)
        )
        self.free_gpu_blocks = list(range(self.NUM_GPU))
        self.loading, self.storing = {}, {}
        self.num_jobs = self.checked = self.evicted = self.refused = 0

    def compute_and_store(self, hashes):
        plan = self.manager.prepare_store(hashes)
        if plan is None:
            self.refused += 1
            return
        self.evicted += len(plan.evicted)
        gpu_blocks = [self.free_gpu_blocks.pop() for _ in plan.hashes]
        for block, block_hash in zip(gpu_blocks, plan.hashes, strict=True):
            self.gpu[block].fill_(block_hash[0] - 128)
        self.store.transfer_async(self.num_jobs, [gpu_blocks], [plan.block_ids])
        self.storing[self.num_jobs] = (plan.hashes, gpu_blocks)
        self.num_jobs += 1

    def find_and_load(self, hashes):
        found = hashes[: self.manager.lookup(hashes)]
        gpu_blocks = [self.free_gpu_blocks.pop() for _ in found]
        self.load.transfer_async(self.num_jobs, [gpu_blocks], [self.manager.prepare_load(found)])
        self.loading[self.num_jobs] = (found, gpu_blocks)
        self.num_jobs += 1

    def wait(self):
        self.store.wait(self.storing)
        self.load.wait(self.loading)

    def collect(self):
        for result in self.store.get_finished():
            hashes, gpu_blocks = self.storing.pop(result.job_id)
            self.manager.complete_store(hashes, result.success)
            self.free_gpu_blocks += gpu_blocks
        for result in self.load.get_finished():
            hashes, gpu_blocks = self.loading.pop(result.job_id)
            self.manager.complete_load(hashes)
            values = [block_hash[0] - 128 for block_hash in hashes]
            assert self.gpu[gpu_blocks].amin(1).tolist() == values
            assert self.gpu[gpu_blocks].amax(1).tolist() == values
            self.checked += len(hashes)
            self.free_gpu_blocks += gpu_blocks

    def _swap(self, *descriptors):
        """Copies after a sleep of 0.2 ms, so that a store is still in flight when its blocks are
        looked up."""
        self.accelerator.sleep(0.2)
        copy_batch(*descriptors)


def test_what_is_found_is_what_was_stored(accelerator):
    """Loaded prefixes have the bytes that were stored for them, while blocks are evicted and
    reused, and others are in flight in both directions."""
    choice = random.Random(0)
    prefixes = [prefix_hashes([number] * 16, 4) for number in range(6)]
    offloading = Offloading(accelerator)
    with debubble.record(accelerator, most_calls=1) as timeline:
        for _ in range(400):
            hashes = choice.choice(prefixes)[: choice.randint(1, 4)]
            if len(offloading.free_gpu_blocks) < len(hashes):
                offloading.wait()
            elif choice.random() < 0.5:
                offloading.compute_and_store(hashes)
            else:
                offloading.find_and_load(hashes)
            chance = choice.random()
            if chance < 0.15:  # Waiting lets much get done even if the device is slow.
                offloading.wait()
            if chance < 0.3 or not offloading.free_gpu_blocks:
                offloading.collect()
        accelerator.synchronize()
        offloading.collect()
    assert timeline.hazards == []
    assert offloading.checked > 50
    assert offloading.evicted > 50
    assert offloading.refused > 0, "there was never too little room"


def test_a_block_is_found_once_its_store_is_done(accelerator):
    offloading = Offloading(accelerator)
    # The first store may make the host wait.
    with closed_gate(accelerator, SHORT_MS):
        offloading.compute_and_store(prefix_hashes(range(100, 104), 4))
    offloading.store.wait(offloading.storing)
    offloading.collect()
    hashes = prefix_hashes(range(16), 4)
    with closed_gate(accelerator):
        offloading.compute_and_store(hashes)
        offloading.collect()
        assert offloading.manager.lookup(hashes) == 0
        assert offloading.manager.prepare_store(hashes).hashes == []
    offloading.store.wait(offloading.storing)
    offloading.collect()
    assert offloading.manager.lookup(hashes) == 4


@pytest.mark.sim
def test_to_load_what_is_still_being_stored_is_a_race(accelerator):
    """A load of a block that another handler is still storing is a race, which sim reports.
    Handlers know nothing of each other, which is why there is a manager."""
    offloading = Offloading(accelerator)
    with debubble.record(accelerator) as timeline:
        offloading.store.transfer_async(0, [[1]], [[2]])
        offloading.load.transfer_async(0, [[3]], [[2]])
    assert {hazard.kind for hazard in timeline.hazards} == {"unordered_streams"}


def test_a_failed_store_is_never_found(accelerator):
    offloading = Offloading(accelerator)
    hashes = prefix_hashes(range(16), 4)

    def refuse(*descriptors):
        raise RuntimeError("the driver refuses")

    offloading.store.swap = refuse
    offloading.compute_and_store(hashes)
    accelerator.synchronize()
    offloading.collect()
    assert offloading.manager.lookup(hashes) == 0
    assert offloading.manager.prepare_store(hashes).hashes == hashes
