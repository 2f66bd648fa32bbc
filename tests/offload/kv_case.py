"""A KV cache of random bytes on both sides, and the expected bytes after transfers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from solutions.offload.handler import SingleDirectionOffloadingHandler
from solutions.offload.memory.kv_tensors import KVGroup, KVTensors

GUARD = 1
"""The number of rows before and after each tensor, which no transfer may touch."""


class KVCase:
    """A KV cache of random bytes on the GPU and the CPU: for each of `factors` (GPU blocks in a CPU
    block) one group of `num_tensors` tensors, whose pages alternate.

    `apply` does the work of a transfer plainly, on copies. `expect` compares everything, including
    untransferred blocks and the rows around the tensors.
    """

    def __init__(
        self,
        accelerator,
        *,
        factors: Sequence[int] = (1,),
        pages: Sequence[int] = (512,),
        num_tensors: int = 4,
        num_gpu: int = 64,
        num_cpu: int = 256,
        copied_bytes: int | None = None,
        seed: int = 0,
    ) -> None:
        self.accelerator = accelerator
        self.random = torch.Generator().manual_seed(seed)
        self.wholes: list[tuple[torch.Tensor, torch.Tensor]] = []
        """The (GPU tensor, CPU tensor) pairs with GUARD rows before and after, in the order of
        groups and tensors."""
        self.groups = []
        for factor in factors:
            pairs = []
            for index in range(num_tensors):
                page = pages[index % len(pages)]
                gpu = self._bytes(num_gpu, page).to(accelerator.device)
                cpu = self._bytes(num_cpu, page * factor).pin_memory()
                self.wholes.append((gpu, cpu))
                pairs.append(KVTensors(gpu[GUARD:-GUARD], cpu[GUARD:-GUARD], copied_bytes))
            self.groups.append(KVGroup(pairs, factor))
        accelerator.synchronize()
        self.expected = [(gpu.cpu(), cpu.clone()) for gpu, cpu in self.wholes]

    def blocks(self, num_cpu_blocks: int, mapping: str = "random", skip: int = 0):
        """Returns (GPU ids, CPU ids), a list for each group: `num_cpu_blocks` CPU blocks, and their
        GPU blocks except the first `skip`."""
        gpu_lists, cpu_lists = [], []
        for group in self.groups:
            num_gpu_blocks = num_cpu_blocks * group.block_size_factor - skip
            gpu_lists.append(self._ids(num_gpu_blocks, group.num_gpu_blocks, mapping))
            cpu_lists.append(self._ids(num_cpu_blocks, group.num_cpu_blocks, mapping))
        return gpu_lists, cpu_lists

    def apply(self, gpu_blocks, cpu_blocks, skip: int = 0, *, gpu_to_cpu: bool) -> None:
        expected = iter(self.expected)
        for group, gpu_ids, cpu_ids in zip(self.groups, gpu_blocks, cpu_blocks, strict=True):
            for pair in group.tensors:
                gpu, cpu = (whole[GUARD:-GUARD] for whole in next(expected))
                for place, gpu_id in enumerate(gpu_ids):
                    cpu_place, sub_block = divmod(skip + place, group.block_size_factor)
                    start = sub_block * pair.page
                    on_gpu = gpu[gpu_id, : pair.copied_bytes]
                    on_cpu = cpu[cpu_ids[cpu_place], start : start + pair.copied_bytes]
                    source, target = (on_gpu, on_cpu) if gpu_to_cpu else (on_cpu, on_gpu)
                    target.copy_(source)

    def expect(self) -> None:
        """Waits for the device, and checks all bytes of all tensors, the GUARD rows included."""
        self.accelerator.synchronize()
        for (gpu, cpu), (right_gpu, right_cpu) in zip(self.wholes, self.expected, strict=True):
            assert torch.equal(gpu.cpu(), right_gpu)
            assert torch.equal(cpu, right_cpu)

    def handler(self, *, gpu_to_cpu: bool = False, **options) -> SingleDirectionOffloadingHandler:
        """Returns a handler of the groups, of loads unless `gpu_to_cpu`."""
        return SingleDirectionOffloadingHandler(self.groups, gpu_to_cpu=gpu_to_cpu, **options)

    def _ids(self, count: int, of: int, mapping: str) -> list[int]:
        if mapping == "random":
            return torch.randperm(of, generator=self.random)[:count].tolist()
        start = int(torch.randint(0, of - count + 1, (), generator=self.random))
        run = list(range(start, start + count))
        return run if mapping == "run" else run[::-1]

    def _bytes(self, rows: int, nbytes: int) -> torch.Tensor:
        shape = (rows + 2 * GUARD, nbytes)
        return torch.randint(-128, 128, shape, dtype=torch.int8, generator=self.random)
