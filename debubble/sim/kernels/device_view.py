"""Pinned memory as the device sees it, for a kernel's first run and for later runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..memory.inflight import InFlight, Upload
from ..memory.pieces import Pieces


class DeviceView:
    """Pinned memory with the bytes that the device sees when a kernel runs. The kernel reads the
    memory of `reading` and writes `targets`.

    The host may see other bytes there: poison for bytes still in flight and, once the kernel has
    ended in modelled time, anything that the host has written since.
    """

    def __init__(
        self,
        in_flight: InFlight,
        reading: Upload,
        targets: Pieces,
        may_run_again: Callable[[], bool],
    ) -> None:
        self._reading, self._may_run_again = reading, may_run_again
        self._has_run = False
        self._all = reading.host + targets
        self._before, self._overlays = in_flight.seen_by_device(targets)
        self.written = np.empty(targets.nbytes, np.uint8)
        """The bytes that the kernel left in its targets, uint8 [nbytes of targets]."""

    def run(self, call: Callable[[], Any]) -> Any:
        """Runs `call`, the kernel, while memory holds the bytes that the device sees, and returns
        its result. Then restores the bytes that the host sees, except in arguments that the kernel
        wrote to."""
        reading, host = self._reading, self._all.gather()
        sent = reading.read()
        for overlay in self._overlays:
            overlay.put(self._before)
        self._all.scatter(np.concatenate([sent, self._before]))
        try:
            out = call() if not self._has_run or self._may_run_again() else None
            left = self._all.gather()
        finally:
            self._all.scatter(host)
        reading.left, self.written[:] = np.split(left, [len(sent)])
        self._has_run = True
        if not reading.is_done:
            changed = reading.left != sent
            seen = host[: len(sent)]
            seen[changed] = reading.left[changed]
            reading.host.scatter(seen)
        return out
