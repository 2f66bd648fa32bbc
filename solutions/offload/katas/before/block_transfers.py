"""Transfers in the right order, because the host waits between any two steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import current

from ..block_transfers import copy_blocks


class BlockTransfers:
    """Copies blocks between `gpu` and `cpu`. The host waits before and after each transfer."""

    def __init__(self, gpu: torch.Tensor, cpu: torch.Tensor) -> None:
        self.gpu, self.cpu = gpu, cpu
        self.stream = current().stream()

    def load(self, cpu_ids: Sequence[int], gpu_ids: Sequence[int]) -> None:
        """Copies the CPU blocks to the GPU blocks, and waits until they have arrived."""
        # These blocks may still have to be zeroed, or read by their last owner.
        current().current_stream().synchronize()
        with self.stream:
            copy_blocks(self.cpu, cpu_ids, self.gpu, gpu_ids)
        self.stream.synchronize()

    def store(self, gpu_ids: Sequence[int], cpu_ids: Sequence[int]) -> None:
        """Copies the GPU blocks to the CPU blocks, and waits until they have arrived."""
        # These blocks may still have to be computed.
        current().current_stream().synchronize()
        with self.stream:
            copy_blocks(self.gpu, gpu_ids, self.cpu, cpu_ids)
        self.stream.synchronize()

    def make_stream_wait(self, gpu_ids: Sequence[int]) -> None:
        """Does nothing, since `load` and `store` return only when their blocks have arrived."""
