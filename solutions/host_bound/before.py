"""The server as one first writes it: correct, and the host computes in each step."""

from __future__ import annotations

import torch

from debubble.accelerator import current

from .batch import BLOCK, Metadata, StepRequests
from .kernels import specialised_kernel, store_tokens


def build_metadata(batch: StepRequests, group: int) -> Metadata:
    """Returns the metadata of one KV group, computed token by token."""
    starts, positions, slots = [0], [], []
    for request, length in enumerate(batch.lengths.tolist()):
        starts.append(starts[-1] + length)
        for token in range(length):
            position = int(batch.cached[request]) + token
            block = int(batch.tables[group, request, position // BLOCK])
            positions.append(position)
            slots.append(block * BLOCK + position % BLOCK)
    return Metadata(upload(starts), upload(positions), upload(slots))


def upload(values: list[int]) -> torch.Tensor:
    accelerator = current()
    staged = torch.tensor(values, dtype=torch.int32, pin_memory=accelerator.pin_memory)
    return staged.to(accelerator.device, non_blocking=True)


class StepServer:
    """A server with `layers` small layers [W, W], a KV cache for each group, and no warm-up."""

    def __init__(self, layers: int, width: int, groups: int, slots: int) -> None:
        device = current().device
        self.scales = [torch.full((width,), 0.5, device=device) for _ in range(layers)]
        self.biases = [torch.full((width,), 0.1, device=device) for _ in range(layers)]
        self.caches = [torch.zeros(slots, width, device=device) for _ in range(groups)]

    def compute(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the output [T, W] of the layers."""
        for scale, bias in zip(self.scales, self.biases, strict=True):
            hidden = torch.relu(hidden * scale + bias)
        return hidden

    def step(self, batch: StepRequests, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the output [T, W] of the layers for `hidden` [T, W], and stores it."""
        hidden = self.compute(hidden)
        for group, cache in enumerate(self.caches):
            metadata = build_metadata(batch, group)
            store_tokens(hidden, metadata.slots, cache, specialised_kernel)
        return hidden
