"""What an operator does on CUDA, as counts, and as actions for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .action import SYNC, Action, copy


class Effects(NamedTuple):
    """How often an operator does what. The order in time is the order of the fields."""

    uploads: int = 0
    """Blocking copies of a CPU value from pageable memory."""
    pinned_uploads: int = 0
    d2d: int = 0
    kernels: int = 1
    reads: int = 0
    """Blocking copies to the host."""
    syncs: int = 0
    """Host waits beyond those of the copies."""
    kernels_after: int = 0

    def actions(self, whole: Action) -> list[Action]:
        """One list for the device. `whole` is the operator as if it were one kernel: its bytes
        and operations are spread over the kernels that there are."""
        if self is ONE_KERNEL:
            return [whole]
        count = max(1, self.kernels + self.kernels_after)
        one = whole._replace(nbytes=whole.nbytes / count, flops=whole.flops / count)
        return (
            [copy("h2d_pageable", SCALAR_BYTES), SYNC] * self.uploads
            + [copy("h2d_pinned", SCALAR_BYTES)] * self.pinned_uploads
            + [copy("d2d", whole.nbytes / 2)] * self.d2d
            + [one] * self.kernels
            + [copy("d2h", SCALAR_BYTES), SYNC] * self.reads
            + [SYNC] * self.syncs
            + [one] * self.kernels_after
        )

    def __add__(self, other: Effects) -> Effects:
        return Effects(*(a + b for a, b in zip(self, other, strict=True)))


SCALAR_BYTES = 8
Rule = Effects | Callable[[tuple, dict], Effects]

ONE_KERNEL = Effects()
NOTHING = Effects(kernels=0)
READ = Effects(kernels=0, reads=1)
ERROR_CHECK = Effects(d2d=1, kernels=0, reads=1, kernels_after=1)
COPIED_FIRST = Effects(d2d=1)
"""A functional form of an in-place operator: a copy of the input, then the kernel."""
