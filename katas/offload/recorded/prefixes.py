"""Prefills requests whose prefixes lie in CPU memory, as a server with an offloaded cache does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from debubble.accelerator import Accelerator

LAYERS, TOKENS, WIDTH = 4, 512, 1024


def make(accelerator: Accelerator) -> Callable[[int], None]:
    """Returns the function that prefills request `number`."""
    torch.manual_seed(0)
    device, pin = accelerator.device, accelerator.pin_memory
    layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)).to(device)
    tokens = torch.randn(TOKENS, WIDTH, device=device)
    prefix = torch.randn(LAYERS, 2 * TOKENS, WIDTH, pin_memory=pin)
    cache = torch.zeros(LAYERS, 2 * TOKENS, WIDTH, device=device)
    images = torch.randn(4 * TOKENS, WIDTH, pin_memory=pin)
    next_images = torch.zeros(4 * TOKENS, WIDTH, device=device)
    loading, arrived, free = accelerator.stream(), accelerator.event(), accelerator.event()
    scores: list[torch.Tensor] = []

    @torch.inference_mode()
    def step(number: int) -> None:
        free.record()
        with loading:
            free.wait(loading)
            next_images.copy_(images, non_blocking=True)
            arrived.record(loading)
        x = tokens
        for layer, block, keys_in_memory in zip(layers, cache, prefix, strict=True):
            block.copy_(keys_in_memory, non_blocking=True)
            keys = layer(block)
            x = x + (x @ keys.T).softmax(-1) @ keys
        arrived.wait()
        scores.append((x.mean(0) * next_images[: len(x)]).sum())

    return step
