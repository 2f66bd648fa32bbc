"""Decodes with a paged cache, one CUDA graph for each half of the model, as a server does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from debubble.accelerator import Accelerator

REQUESTS, PAGES, WIDTH, LAYERS = 16, 12, 1024, 24


def make(accelerator: Accelerator) -> Callable[[int], None]:
    """Returns the function that runs decode step `number`."""
    torch.manual_seed(0)
    device, pin = accelerator.device, accelerator.pin_memory
    layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)).to(device)
    hidden = torch.randn(REQUESTS, WIDTH, device=device)
    table = torch.randint(0, 4, (REQUESTS, PAGES), device=device)
    used = torch.zeros(REQUESTS, dtype=torch.int64, device=device)
    lengths = torch.arange(REQUESTS, dtype=torch.int64)
    on_device = torch.zeros_like(lengths, device=device)
    tokens: list[list[int]] = []

    def half(part: nn.ModuleList) -> None:
        for layer in part:
            hidden.copy_(torch.tanh(layer(hidden)))

    graphs = []
    with torch.inference_mode():
        for part in (layers[: LAYERS // 2], layers[LAYERS // 2 :]):
            half(part)
            graph = accelerator.graph()
            with graph.capture():
                half(part)
            graphs.append((graph, part))

    @torch.inference_mode()
    def step(number: int) -> None:
        staged = (lengths + number).pin_memory() if pin else lengths + number
        on_device.copy_(staged, non_blocking=True)
        graphs[0][0].replay()
        used.zero_()
        for page in range(PAGES):
            used.add_(table[:, page].ne(0))
        hidden.add_((used < on_device).unsqueeze(1))
        graphs[1][0].replay()
        tokens.append(hidden.argmax(-1).tolist())

    return step
