"""Runs causal convolutions over the sequences of a step, as layers with a short memory do."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from debubble.accelerator import Accelerator

LAYERS, WIDTH, CHUNK = 6, 1024, 8
LENGTHS = (192, 16, 400, 96, 320)


def make(accelerator: Accelerator) -> Callable[[int], None]:
    """Returns the function that runs prefill step `number`."""
    torch.manual_seed(0)
    device, pin = accelerator.device, accelerator.pin_memory
    mixers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)).to(device)
    weights = torch.randn(LAYERS, WIDTH, device=device)
    tokens = torch.randn(sum(LENGTHS), WIDTH, device=device)
    norms: list[float] = []

    def plan(starts: torch.Tensor) -> torch.Tensor:
        """Returns the sequence of each chunk, on the device."""
        lengths = starts.diff().tolist()
        rows = [row for row, length in enumerate(lengths) for _ in range(-(-length // CHUNK))]
        return torch.tensor(rows, pin_memory=pin).to(device, non_blocking=True)

    @torch.inference_mode()
    def step(number: int) -> None:
        starts = F.pad(torch.tensor(LENGTHS), (1, 0)).cumsum(0).to(device)
        x = tokens
        for _layer, mixer in enumerate(mixers):
            rows = plan(starts)
            mixed = mixer(x).view(len(rows), CHUNK, WIDTH)
            first = mixed[:, :1] * weights[rows % LAYERS].unsqueeze(1)
            x = F.silu(torch.cat((first, mixed[:, 1:]), 1)).view(-1, WIDTH) + x
        norms.append(x.norm().item())

    return step
