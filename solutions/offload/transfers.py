"""One transfer: what is asked for, what is under way, and what became of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from debubble.accelerator import Event, Stream


class TransferResult(NamedTuple):
    job_id: Hashable
    success: bool
    num_bytes: int
    """Copied; 0 if the transfer failed, since nobody knows how far it came."""
    error: str | None
    """Why it failed."""


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Queued on `stream` between two events; the descriptors may be read until the second."""

    job_id: Hashable
    stream: Stream
    start_event: Event
    end_event: Event
    batch_src: torch.Tensor
    """int64 [N], pinned: addresses, in a buffer of a pool."""
    batch_dst: torch.Tensor
    batch_sizes: torch.Tensor
    """In bytes."""
    num_bytes: int
    error: str | None = None
    """Why not all of it could be queued."""

    def result(self) -> TransferResult:
        """Once `end_event` has passed."""
        success = self.error is None
        return TransferResult(self.job_id, success, self.num_bytes if success else 0, self.error)


def order_transfer(
    stream: Stream, compute_stream: Stream, computed: Event, previous_end: Event | None
) -> None:
    """Makes `stream` wait for all that `compute_stream` has to do by now, and for the transfer
    before this one; the host does not wait.

    A store must not read a block that is still being computed. A load must not overtake the zeroing
    of the block that it fills, or the last reader of what was in it. And the transfers of one
    direction end in the order in which they were asked for, each on a stream of its own.

    `computed` is an event of the caller's, used again for each transfer: a wait means what it was
    last recorded behind, also when it is recorded anew while that wait is under way.
    """
    computed.record(compute_stream)
    stream.wait_event(computed)
    if previous_end is not None:
        stream.wait_event(previous_end)
