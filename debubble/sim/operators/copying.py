"""`copy_` and `to` on sim: by the rules of copies, and under way until they are done."""

from __future__ import annotations

import numpy as np
import torch

from debubble.rules.action import Action
from debubble.rules.copies import device_copy, download, nbytes_of, upload

from ..clock.device import SimDevice
from ..memory import pinning
from ..memory.inflight import looking_at
from ..tensor import SimTensor
from .execution import Operation, execute
from .host_watch import report_read


class Copies:
    def __init__(self, device: SimDevice) -> None:
        self.device = device

    def copy_(self, args: tuple, kwargs: dict) -> torch.Tensor:
        target, source = args[:2]
        non_blocking = args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        self.copy(target, source, bool(non_blocking))
        return target

    def to_copy(self, args: tuple, kwargs: dict) -> torch.Tensor:
        """`to`: a new tensor, then a copy into it. A result on the host is pinned if the copy is
        not to block."""
        source = args[0]
        dtype = kwargs.get("dtype") or source.dtype
        to_host = torch.device(kwargs.get("device") or source.device).type == "cpu"
        non_blocking = bool(kwargs.get("non_blocking"))
        shape, stride = tuple(source.shape), _stride_of_copy(source, kwargs.get("memory_format"))
        if to_host and non_blocking and pinning.is_possible():
            target = pinning.pinned_empty_strided(shape, stride, dtype)
        else:
            target = torch.empty_strided(shape, stride, dtype=dtype)
        target = target if to_host else self.device.blank(target)
        self.copy(target, source, non_blocking)
        return target

    def copy(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
        """One of the two, or both, lie on sim."""
        if not isinstance(target, SimTensor):
            assert isinstance(source, SimTensor)
            self._download(target, source, non_blocking)
        elif isinstance(source, SimTensor):
            self._on_device(target, source)
        else:
            self._upload(target, source, non_blocking)

    def _on_device(self, target: SimTensor, source: SimTensor) -> None:
        to, what = target.data_on_cpu, source.data_on_cpu
        actions = device_copy(to, what)
        execute(
            self.device, Operation(lambda: to.copy_(what), lambda _: actions, [source], [target])
        )

    def _upload(self, target: SimTensor, source: torch.Tensor, non_blocking: bool) -> None:
        device, data = self.device, target.data_on_cpu
        actions = upload(data, source, non_blocking)
        device.check("copy_", actions)
        if non_blocking and _reads_pinned(actions) and device.capturing is None:
            self._upload_later(target, source, actions)
            return
        if _reads_pinned(actions):
            # The device reads when its stream gets there, after copies that are queued before.
            self._expect_after_downloads(source)
            device.settle(by=device.current_stream().free_at)
        elif device.recorder is not None:
            report_read(device, source)
        # What goes by way of a copy of the driver's own is safe from the host from now on.
        staged = source.clone() if device.in_flight.uploads else source
        execute(device, Operation(lambda: data.copy_(staged), lambda _: actions, [], [target]))
        device.touches_host(source, writes=False)

    def _upload_later(self, target: SimTensor, source: torch.Tensor, actions: list[Action]) -> None:
        """The device reads the host's memory when the stream gets there."""
        device, data, in_flight = self.device, target.data_on_cpu, self.device.in_flight
        device.host_works(device.cost.op_us)
        self._expect_after_downloads(source)
        done_at = device.perform(actions, writes=[target])
        device.touches_host(source, writes=False)
        in_flight.ends_at(in_flight.copy(data, source, device.source()), done_at)

    def _expect_after_downloads(self, source: torch.Tensor) -> None:
        """Reports a copy into `source` that another stream may not have done by now."""
        pending = self.device.in_flight.reader_of_pending(source)
        if pending is not None:
            stream, line = self.device.current_stream(), self.device.source()
            self.device.races.expect_before(pending.access, stream, line, "written")

    def _download(self, target: torch.Tensor, source: SimTensor, non_blocking: bool) -> None:
        device, data = self.device, source.data_on_cpu
        actions = download(target, data, non_blocking)
        device.check("copy_", actions)
        comes_later = non_blocking and bool(actions) and not actions[-1].pageable
        if device.capturing is not None:
            into_host = Operation(
                lambda: target.copy_(data), lambda _: actions, [source], has_result=False
            )
            execute(device, into_host)
        elif comes_later:
            result = np.empty(nbytes_of(target), np.uint8)
            view = looking_at(result, target)
            execute(device, Operation(lambda: view.copy_(data), lambda _: actions, [source]))
            coming = device.in_flight.download_to(target, result, device.source())
            coming.access = device.races.last_access
            device.in_flight.ends_at(coming, device.current_stream().free_at)
            device.touches_host(target, writes=True)
            device.settle()
        else:
            device.host_works(device.cost.op_us)
            device.perform(actions, reads=[source])
            device.touches_host(target, writes=True)
            target.copy_(data)


def _reads_pinned(actions: list[Action]) -> bool:
    return any(action.copy_kind == "h2d_pinned" for action in actions)


def _stride_of_copy(
    source: torch.Tensor, memory_format: torch.memory_format | None
) -> tuple[int, ...]:
    """The strides that a copy of `source` gets: its own where they are dense."""
    if source.is_contiguous():
        return tuple(source.stride())
    data = source.data_on_cpu if isinstance(source, SimTensor) else source
    like = torch.empty_like(
        data, device="meta", memory_format=memory_format or torch.preserve_format
    )
    return tuple(like.stride())
