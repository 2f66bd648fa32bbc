"""Find the races (chapter 02, hard, 40 minutes).

This code is fast, and wrong. The decode loop below never waits: it uploads the positions, computes,
copies the tokens to the host on a stream of its own, and returns the tokens of the step before. It
is right if the caller waits for the device between steps. On a busy device it returns garbage:
memory is used again or read at four places, and no event says when that is safe.

Find the four races, and repair them one at a time. The host may wait for one thing in a step: the
arrival of the previous step's tokens. The device must have its next step queued by then, and its
kernels wait for no copy to the host: these copies stay on their own stream. Wait by
`event.synchronize()`: a loop around `event.query()` is a wait that no timeline shows.

The simulated GPU proves a race every time, and the timeline names both of its lines: the copy, and
the line that came too early. A real GPU reports nothing, and shows a race only now and then by a
wrong token. On a real GPU the tests keep the device busy long enough to make that happen.

You need to know streams and events, and that a copy reads its memory when its turn comes.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_find_the_races.py

Stuck?         .venv/bin/debubble hint find_the_races
Start afresh?  .venv/bin/debubble reset find_the_races
"""

from __future__ import annotations

import torch

from debubble.accelerator import current
from katas.sync_free.given import Decode


# Yours to edit, from here on.
class DecodeLoop:
    """A decode loop whose tokens stay on the device from step to step; the host gets them one step
    late (vLLM #41429).

    `decode(tokens, positions)` returns the next tokens, and queues its kernels on the current
    stream. All three are [num_requests] int64 on the device. The first tokens are zeros.
    """

    def __init__(self, decode: Decode, num_requests: int) -> None:
        accelerator = current()
        self.decode = decode
        self.tokens = torch.zeros(num_requests, dtype=torch.int64, device=accelerator.device)
        pin_memory = accelerator.pin_memory
        self.staged = torch.zeros(num_requests, dtype=torch.int64, pin_memory=pin_memory)
        self.copying = accelerator.stream()
        self.on_host: torch.Tensor | None = None

    def step(self, positions: torch.Tensor) -> list[int] | None:
        """Queues a step, then returns the tokens of the step before it, or None if there is none.

        `positions` is [num_requests] int64 on the host, and the caller may change it at once.
        """
        self.staged.copy_(positions)
        uploaded = self.staged.to(self.tokens.device, non_blocking=True)
        self.tokens = self.decode(self.tokens, uploaded)
        of_step_before = self.on_host
        with self.copying:
            self.on_host = self.tokens.to("cpu", non_blocking=True)
        return None if of_step_before is None else of_step_before.tolist()

    def finish(self) -> list[int] | None:
        """Returns the tokens of the last step, or None if there is none."""
        return None if self.on_host is None else self.on_host.tolist()
