"""Runs a kernel that reaches pinned host memory or uses addresses, on the bytes it finds there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from debubble.clock.action import Action

from ..clock.device import SimDevice
from ..memory.arrivals import Download
from ..memory.inflight import Upload
from ..memory.pieces import Pieces
from ..tensor import SimTensor
from .address_work import AddressWork
from .device_view import DeviceView
from .reach import Reach


class KernelRun(AddressWork):
    """One launch of a kernel that uses pinned memory or addresses.

    The device may read its pinned arguments, and pinned memory by address, until the kernel ends.
    Its writes to pinned memory by address arrive at the end."""

    def __init__(
        self,
        device: SimDevice,
        action: Action,
        call: Callable[[], Any],
        reach: Reach,
        on_device: list[SimTensor],
        on_host: list[torch.Tensor],
        may_run_again: Callable[[], bool],
    ) -> None:
        """Takes the memory that the kernel reaches by address, as `reach`, and its tensor
        arguments, as `on_device` and `on_host`. The host may overwrite memory that the kernel
        reads: it then runs again, but only if `may_run_again` returns True."""
        blocks = reach.from_.blocks, reach.to.blocks
        super().__init__(device, action, reach.read(), reach.written(), *blocks)
        self.result: Any = None
        """The return value of a plain function that was launched; None for a Triton kernel."""
        self._call, self._may_run_again = call, may_run_again
        self._host_reads = Pieces.together(map(Pieces.of, on_host)) + reach.host_sources
        self._host_writes = reach.host_targets
        self._tensors_written = [tensor.data_on_cpu for tensor in on_device]

    def begin(self) -> list[Upload | Download]:
        in_flight = self.device.in_flight
        reading = in_flight.upload(self._host_reads, self.source, "kernel")
        view = DeviceView(in_flight, reading, self._host_writes, self._may_run_again)
        try:
            self.result = self.run(partial(view.run, self._call), self._tensors_written)
        except BaseException:
            in_flight.give_up(reading)
            raise
        works: list[Upload | Download] = [reading]
        if len(self._host_writes):
            works.append(in_flight.download(self._host_writes, view.written, self.source))
        return works
