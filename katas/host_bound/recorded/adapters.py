"""Decodes requests with an adapter each beside a part of a prompt, as a server of fine-tunings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from debubble.accelerator import Accelerator

REQUESTS, ADAPTERS, WIDTH, RANK, PROMPT, VOCABULARY = 12, 5, 1024, 8, 6144, 2048


def make(accelerator: Accelerator) -> Callable[[int], None]:
    """Returns the function that runs step `number`."""
    torch.manual_seed(0)
    device = accelerator.device
    layer = nn.Linear(WIDTH, WIDTH).to(device)
    down = torch.randn(ADAPTERS, WIDTH, RANK, device=device)
    up = torch.randn(ADAPTERS, RANK, WIDTH, device=device)
    # The number of each request's adapter: some requests share one.
    adapters = [request % ADAPTERS for request in range(REQUESTS)]
    hidden = torch.randn(REQUESTS, WIDTH, device=device)
    prompt = torch.randn(PROMPT, WIDTH, device=device)
    scores = torch.zeros(REQUESTS, VOCABULARY, device=device)
    tokens = torch.zeros(REQUESTS, dtype=torch.int64, device=device)
    answers: list[list[int]] = []

    @torch.inference_mode()
    def step(number: int) -> None:
        answers.append(tokens.tolist())
        x = layer(hidden + tokens.unsqueeze(1))
        for request, adapter in enumerate(adapters):
            x[request] += x[request] @ down[adapter] @ up[adapter]
        keys = layer(prompt)
        prompt.copy_(keys @ (keys.T @ prompt / PROMPT))
        torch.matmul(x, prompt[:VOCABULARY].T, out=scores)
        for request in range(REQUESTS):
            scores[request, :number].sub_(1.0).clamp_(min=-50.0).mul_(0.9).nan_to_num_().add_(0.1)
        tokens.copy_(scores.argmax(-1))

    return step
