"""The decode loop that never waits, and is wrong: no event says when a buffer may be used again."""

from __future__ import annotations

import torch

from debubble.accelerator import current

from ..overlapped_loop import Decode


class DecodeLoop:
    """A decode loop whose tokens are right only if the caller waits for the device between
    steps."""

    def __init__(self, decode: Decode, num_requests: int) -> None:
        accelerator = current()
        self.decode = decode
        self.tokens = torch.zeros(num_requests, dtype=torch.int64, device=accelerator.device)
        pin_memory = accelerator.pin_memory
        self.staged = torch.zeros(num_requests, dtype=torch.int64, pin_memory=pin_memory)
        self.copying = accelerator.stream()
        self.on_host: torch.Tensor | None = None

    def step(self, positions: torch.Tensor) -> list[int] | None:
        self.staged.copy_(positions)
        uploaded = self.staged.to(self.tokens.device, non_blocking=True)
        self.tokens = self.decode(self.tokens, uploaded)
        of_step_before = self.on_host
        with self.copying:
            self.on_host = self.tokens.to("cpu", non_blocking=True)
        return None if of_step_before is None else of_step_before.tolist()

    def finish(self) -> list[int] | None:
        return None if self.on_host is None else self.on_host.tolist()
