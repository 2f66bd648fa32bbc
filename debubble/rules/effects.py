"""The work of an operator on CUDA, as counts, and as actions for the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..clock.action import SYNC, Action, copy


# Not frozen, because a frozen dataclass takes longer to make: sim makes one for many of its
# operators.
@dataclass(slots=True)
class Effects:
    """The numbers of copies, kernels and host waits of one operator on CUDA. Their order in time is
    the order of the fields."""

    uploads: int = 0
    """Blocking copies of a CPU value from pageable memory."""
    pinned_uploads: int = 0
    staged_uploads: int = 0
    """Copies from pageable memory that the host does not wait for."""
    d2d: int = 0
    kernels: int = 1
    reads: int = 0
    """Blocking copies to the host."""
    downloads: int = 0
    """Copies to the host that it does not wait for."""
    syncs: int = 0
    """Host waits that belong to none of the copies."""
    kernels_after: int = 0

    @property
    def waits(self) -> bool:
        """True if the host waits for the device during the operator."""
        return bool(self.reads or self.syncs or self.uploads)

    def actions(self, whole: Action) -> list[Action]:
        """Returns the copies, kernels and waits in order of time. `whole` describes the operator as
        one kernel: its bytes and operations are divided among the actual kernels, and its measured
        time among all kernels and copies but the uploads."""
        if self is ONE_KERNEL:
            return [whole]
        count = max(1, self.kernels + self.kernels_after)
        one, each_us = whole, whole.microseconds
        copies = self.d2d + self.reads + self.downloads
        if not self.kernels + self.kernels_after:
            each_us = None
        if each_us is not None:
            each_us /= count + copies
        if count + copies > 1:
            one = whole._replace(
                nbytes=whole.nbytes / count, flops=whole.flops / count, microseconds=each_us
            )
        uploads = self.uploads or self.pinned_uploads or self.staged_uploads
        if not (uploads or self.d2d or self.reads or self.downloads or self.syncs):
            return [one] * (self.kernels + self.kernels_after)
        return (
            [copy("h2d_pageable", SCALAR_BYTES), SYNC] * self.uploads
            + [copy("h2d_pinned", SCALAR_BYTES)] * self.pinned_uploads
            + [copy("h2d_pageable", SCALAR_BYTES)] * self.staged_uploads
            + [copy("d2d", whole.nbytes / 2)._replace(microseconds=each_us)] * self.d2d
            + [one] * self.kernels
            + [copy("d2h", SCALAR_BYTES)._replace(microseconds=each_us), SYNC] * self.reads
            + [copy("d2h", SCALAR_BYTES)._replace(microseconds=each_us)] * self.downloads
            + [SYNC] * self.syncs
            + [one] * self.kernels_after
        )

    def __add__(self, other: Effects) -> Effects:
        return Effects(
            self.uploads + other.uploads,
            self.pinned_uploads + other.pinned_uploads,
            self.staged_uploads + other.staged_uploads,
            self.d2d + other.d2d,
            self.kernels + other.kernels,
            self.reads + other.reads,
            self.downloads + other.downloads,
            self.syncs + other.syncs,
            self.kernels_after + other.kernels_after,
        )


SCALAR_BYTES = 8
Rule = Effects | Callable[[tuple, dict], Effects]

ONE_KERNEL = Effects()
NOTHING = Effects(kernels=0)
READ = Effects(kernels=0, reads=1)
ERROR_CHECK = Effects(d2d=1, kernels=0, reads=1, kernels_after=1)
COPIED_FIRST = Effects(d2d=1)
"""The effects of an out-of-place form of an in-place operator: a copy of the input, then the
kernel."""
FILLED_FIRST = Effects(kernels=2)
"""The effects of an operator that writes only some elements: zeros everywhere, then the kernel."""


def kernels(count: int) -> Effects:
    return ONE_KERNEL if count == 1 else Effects(kernels=count)
