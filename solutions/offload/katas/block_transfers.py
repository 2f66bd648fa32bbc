"""Block transfers while the device computes: the order of streams, without anything else.

No system runs this. `TransferQueue` waits for the same events, but moves many tensors in one
direction by lists of addresses. This has two tensors and both directions, and only the waits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import Event, current


def copy_blocks(
    source: torch.Tensor, source_ids: Sequence[int], target: torch.Tensor, target_ids: Sequence[int]
) -> None:
    """Queues a copy of each block on the current stream. `source` and `target` are [blocks, words],
    one of them on the device and the other in pinned host memory."""
    nbytes = source[0].nbytes
    for source_id, target_id in zip(source_ids, target_ids, strict=True):
        start, to = source.data_ptr() + source_id * nbytes, target.data_ptr() + target_id * nbytes
        current().copy_bytes(start, to, nbytes)


class BlockTransfers:
    """Copies of blocks between `gpu` and `cpu` (pinned), each [blocks, words], in the background.

    A transfer runs after all work that the current stream has at the call, and after the previous
    transfer. The host waits for neither (vLLM #42212).
    """

    def __init__(self, gpu: torch.Tensor, cpu: torch.Tensor) -> None:
        self.gpu, self.cpu = gpu, cpu
        self.stream = current().stream()
        self.ends: dict[int, Event] = {}

    def load(self, cpu_ids: Sequence[int], gpu_ids: Sequence[int]) -> None:
        """Queues copies of the CPU blocks to the GPU blocks."""
        self._transfer(self.cpu, cpu_ids, self.gpu, gpu_ids, gpu_ids)

    def store(self, gpu_ids: Sequence[int], cpu_ids: Sequence[int]) -> None:
        """Queues copies of the GPU blocks to the CPU blocks."""
        self._transfer(self.gpu, gpu_ids, self.cpu, cpu_ids, gpu_ids)

    def make_stream_wait(self, gpu_ids: Sequence[int]) -> None:
        """Makes later work on the current stream wait until these GPU blocks can be used: it runs
        after the last transfer of each block, and need not wait for any later transfer."""
        for gpu_id in gpu_ids:
            if gpu_id in self.ends:
                current().current_stream().wait_event(self.ends[gpu_id])

    def _transfer(
        self,
        source: torch.Tensor,
        source_ids: Sequence[int],
        target: torch.Tensor,
        target_ids: Sequence[int],
        gpu_ids: Sequence[int],
    ) -> None:
        self.stream.wait_stream(current().current_stream())
        with self.stream:
            copy_blocks(source, source_ids, target, target_ids)
        self.ends.update(dict.fromkeys(gpu_ids, self.stream.record_event()))
