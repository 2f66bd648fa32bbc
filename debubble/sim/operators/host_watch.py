"""Watches what the host does to buffers with a copy in flight, during a recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from debubble.contract.python.follow import into_threads
from debubble.contract.source_line import source_line
from debubble.private import torch as private
from debubble.rules.calls import during
from debubble.timeline.event import Hazard

from ..clock.device import SimDevice
from ..memory.tape import flat_tensors
from ..tensor import SimTensor

READ_WITHOUT_OPERATOR = {torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__}


@contextmanager
def watching(device: SimDevice) -> Iterator[None]:
    """Watches the host's reads and writes in this thread, and in threads and pool tasks started in
    the block. A read of memory to which a copy is in flight is a hazard; a write is noted with its
    line."""

    def enter() -> AbstractContextManager[object]:
        watched = any(type(mode) is _HostOperators for mode in _modes())
        return nullcontext() if watched else HostWatch(device)

    with into_threads(enter), enter():
        yield


class HostWatch:
    """A context manager that watches one thread with two modes: one for operators on CPU tensors,
    one for reads that are no operator, such as `tolist`."""

    def __init__(self, device: SimDevice) -> None:
        self._modes = (_HostOperators(device), _Reads(device))

    def __enter__(self) -> HostWatch:
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*exception)


class _HostOperators(private.TorchDispatchMode):
    def __init__(self, device: SimDevice) -> None:
        super().__init__()
        self.device = device

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Returns False, or PyTorch would spend a second importing its compiler before the first
        operator."""
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        in_flight = self.device.in_flight
        if (
            SimTensor not in types
            and (in_flight.uploads or in_flight.downloads)
            and not _is_upload(func, kwargs)
        ):
            with self.device.lock:
                self._look_at(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))

    def _look_at(self, func: Any, args: tuple, kwargs: dict) -> None:
        for position, argument in enumerate(private.schema(func).arguments):
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            writes = argument.alias_info is not None and argument.alias_info.is_write
            for tensor in flat_tensors(value):
                if writes:
                    self.device.in_flight.note_host_write(tensor, source_line())
                elif not func.is_view:
                    report_read(self.device, tensor)


def _is_upload(func: Any, kwargs: dict | None) -> bool:
    """Returns True for `to` with a device other than the CPU. Reads by such a copy are reported by
    `Copies`."""
    device = (kwargs or {}).get("device") if func is private.to_copy.default else None
    return device is not None and torch.device(device).type != "cpu"


def modes_are_on() -> bool:
    """Returns True if this thread has a dispatch mode other than sim's own, which ignores operators
    on the device."""
    return any(type(mode) is not _HostOperators for mode in _modes())


def _modes() -> list[Any]:
    """Returns this thread's active dispatch modes, the outermost first."""
    count = private.len_torch_dispatch_stack()
    return [private.get_dispatch_stack_at(place) for place in range(count)]


class _Reads(TorchFunctionMode):
    def __init__(self, device: SimDevice) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in READ_WITHOUT_OPERATOR and self.device.in_flight.downloads:
            with self.device.lock:
                report_read(self.device, args[0])
        with during(func, args, kwargs):
            return func(*args, **(kwargs or {}))


def report_read(device: SimDevice, tensor: torch.Tensor) -> None:
    """Notes a hazard if `tensor`, which the host reads now, is the target of a copy in flight: it
    holds poison until the copy is done."""
    pending = device.in_flight.reader_of_pending(tensor)
    if pending is None:
        return
    here = source_line()
    device.hazards.append(
        Hazard(
            "read_before_sync",
            f"{here} reads memory before the copy at {pending.source} has filled it: first wait "
            "for an event recorded after the copy",
            pending.source,
            here,
        )
    )
