"""Samples tokens with a penalty for tokens that a request has had before, as a server does."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from debubble.accelerator import Accelerator

REQUESTS, TOKENS, WIDTH, VOCABULARY = 32, 16, 2048, 8192
PENALTIES = (0.1, 0.2, 0.3, 0.4, 0.6, 0.8)


def make(accelerator: Accelerator) -> Callable[[int], None]:
    """Returns the function that runs decode step `number`."""
    torch.manual_seed(0)
    device = accelerator.device
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3))).to(device)
    head = nn.Linear(WIDTH, VOCABULARY).to(device)
    hidden = torch.randn(REQUESTS * TOKENS, WIDTH, device=device)
    counts = torch.zeros(REQUESTS, VOCABULARY, device=device)
    arrived = torch.tensor([3, 17], device=device)
    finished = torch.zeros(REQUESTS * TOKENS, dtype=torch.bool, device=device)
    ones = torch.ones(REQUESTS, 1, device=device)
    tokens: list[list[int]] = []

    @torch.inference_mode()
    def step(number: int) -> None:
        if bool(finished.any()):
            hidden[finished] = 0
        logits = head(model(hidden)[:REQUESTS])
        counts[arrived] = 0
        for penalty in PENALTIES:
            seen = (counts > 0).float()
            logits = logits - penalty * seen * logits.abs()
        probabilities = logits.softmax(-1)
        chosen = probabilities.sort(-1).indices[:, -1:]
        counts.scatter_add_(1, chosen, ones)
        tokens.append(chosen.squeeze(1).tolist())

    return step
