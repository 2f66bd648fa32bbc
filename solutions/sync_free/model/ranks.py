"""The ranks that step side by side: how one of them sees the others, and the decision they
share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import torch

from debubble.accelerator import Stream

from .exchanges import check_in_step


class Sent(IntEnum):
    """The numbers that a rank sends: each is a row of the tensor that ranks exchange, which has a
    column for each rank."""

    ORIGINAL_TOKENS = 0
    PADDED_TOKENS = 1
    SHOULD_UBATCH = 2
    CUDAGRAPH_MODE = 3


class Ranks(Protocol):
    """A group of ranks that step side by side, as seen by one of them."""

    rank: int
    """The number of this rank, from 0."""
    size: int
    """Number of ranks."""
    stream: Stream
    """The stream of the exchanges between ranks: nothing else is queued here."""

    def own_column(
        self, original_tokens: int, padded_tokens: int, should_ubatch: bool, cudagraph_mode: int
    ) -> torch.Tensor:
        """Returns [4, size] int32 on the device: this rank's column, and zeros elsewhere. Uploads
        nothing."""

    def all_reduce(self, state: torch.Tensor) -> None:
        """Sums `state` over all ranks, in place, on the current stream."""


@dataclass(frozen=True)
class Agreement:
    """The ranks' common decision about a step, the same on all ranks."""

    num_tokens: int
    """Number of tokens that every rank pads its batch to."""
    should_ubatch: bool
    """True if every rank can split its batch into micro-batches."""
    cudagraph_mode: int
    """The highest graph mode that every rank can run in."""


def agreement_of(state: torch.Tensor) -> Agreement:
    """Returns the ranks' common decision, computed from what they sent: `state`, [4, size] int32 on
    the host. Raises RuntimeError, on each rank, if a rank has refused or is at another exchange,
    and ValueError for a `state` of another shape or dtype, or on a device."""
    if state.dim() != 2 or len(state) != len(Sent) or not state.is_cpu or state.is_floating_point():
        raise ValueError(
            f"state is {state.dtype} {list(state.shape)} on {state.device}: give what _run_ar "
            f"reads, int32 [{len(Sent)}, ranks] on the host"
        )
    check_in_step(state[Sent.ORIGINAL_TOKENS].tolist())
    return Agreement(
        num_tokens=int(state[Sent.PADDED_TOKENS].max()),
        should_ubatch=bool(state[Sent.SHOULD_UBATCH].all()),
        cudagraph_mode=int(state[Sent.CUDAGRAPH_MODE].min()),
    )
