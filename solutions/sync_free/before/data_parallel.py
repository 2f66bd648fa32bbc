"""The exchange as it was: every number is uploaded by itself, and the host waits for all of it.

Each of the four writes below waits until the device has done what was queued before it, and so
does the read at the end. All of it is on the model's stream, behind the step before.
"""

from __future__ import annotations

from typing import Protocol

import torch

from debubble.accelerator import Stream, current


class Ranks(Protocol):
    """The ranks that step side by side, as one of them sees them."""

    rank: int
    """Which of them this one is."""
    size: int
    stream: Stream
    """For their exchanges alone: nothing else is queued here."""

    def all_reduce(self, state: torch.Tensor) -> None:
        """Sums `state` over all ranks, in place, on the current stream."""


class ReadBack:
    """A device tensor on the host already."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.values = tensor.cpu()

    def read(self) -> torch.Tensor:
        """The tensor on the host, the caller's to keep."""
        return self.values


def _run_ar(
    should_ubatch: bool,
    orig_num_tokens: int,
    padded_num_tokens: int,
    cudagraph_mode: int,
    group: Ranks,
) -> ReadBack:
    """What every rank is about to run (vLLM #41429).

    `.read()` of the result gives it: [4, group.size] int32 on the host, a column for each rank;
    its rows are original tokens, padded tokens, should_ubatch as 0 or 1, and graph mode. All ranks
    have to call this equally often.
    """
    state = torch.zeros(4, group.size, dtype=torch.int32, device=current().device)
    state[0, group.rank] = orig_num_tokens
    state[1, group.rank] = padded_num_tokens
    state[2, group.rank] = int(should_ubatch)
    state[3, group.rank] = cudagraph_mode
    group.all_reduce(state)
    return ReadBack(state)
