"""A cache on sim and pinned host memory beside it, both cut into blocks with addresses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

BLOCK = 64
"""The bytes of a block."""


@dataclass(frozen=True)
class Pool:
    """A cache on sim (`device`) and pinned memory of the host (`host`), both uint8 [blocks, BLOCK].
    Block i of the host is full of the number i at first."""

    accelerator: object
    device: torch.Tensor
    host: torch.Tensor

    def load(self, blocks: dict[int, int]) -> None:
        """Copies host blocks to device blocks, {host block: device block}, as one batch on the
        current stream."""
        self.copy(self.host, list(blocks), self.device, list(blocks.values()))

    def store(self, blocks: dict[int, int]) -> None:
        """Copies device blocks to host blocks, {device block: host block}, as one batch on the
        current stream."""
        self.copy(self.device, list(blocks), self.host, list(blocks.values()))

    def copy(self, source: torch.Tensor, from_: list, target: torch.Tensor, to: list) -> None:
        pieces = addresses(source, from_), addresses(target, to), sizes(len(from_))
        self.accelerator.copy_batch(*pieces)

    def on_device(self) -> list[int]:
        """Returns the first byte of every device block. The host waits for the copy."""
        return self.device.cpu()[:, 0].tolist()

    def on_host(self) -> list[int]:
        return self.host[:, 0].tolist()


def pool(accelerator, num_blocks: int = 8) -> Pool:
    """Returns a Pool with zeros in its device blocks, once all work that made it is done."""
    device = torch.zeros(num_blocks, BLOCK, dtype=torch.uint8, device=accelerator.device)
    host = torch.arange(num_blocks, dtype=torch.uint8)[:, None].expand(-1, BLOCK).contiguous()
    made = Pool(accelerator, device, host.pin_memory())
    accelerator.synchronize()
    return made


def addresses(tensor: torch.Tensor, blocks: list[int]) -> np.ndarray:
    return np.array([tensor[block].data_ptr() for block in blocks], np.int64)


def sizes(count: int, nbytes: int = BLOCK) -> np.ndarray:
    return np.full(count, nbytes, np.int64)
