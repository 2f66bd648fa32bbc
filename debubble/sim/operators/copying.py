"""`copy_` and `to` on sim: follow the rules of copies, and stay in flight until they are done."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from debubble.clock.action import Action
from debubble.contract.source_line import SourceLine
from debubble.rules.copies import device_copy, download, nbytes_of, upload

from ..clock.device import SimDevice
from ..memory import pinning
from ..memory.inflight import looking_at
from ..memory.tape import Step
from ..tensor import SimTensor
from .execution import Operation, capture_later, execute, run
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
        """Runs `_to_copy`, the operator of `Tensor.to`: makes a new tensor and copies `args[0]`
        into it. A result on the host is pinned if the copy is non-blocking."""
        source = args[0]
        dtype = kwargs.get("dtype") or source.dtype
        to_host = torch.device(kwargs.get("device") or source.device).type == "cpu"
        non_blocking = bool(kwargs.get("non_blocking"))
        shape, stride = tuple(source.shape), _stride_of_copy(source, kwargs.get("memory_format"))
        if to_host and non_blocking and pinning.is_possible():
            target = pinning.pinned_empty_strided(shape, stride, dtype)
        else:
            target = torch.empty_strided(shape, stride, dtype=dtype, device="cpu")
        target = target if to_host else self.device.blank(target)
        self.copy(target, source, non_blocking)
        return target

    def copy(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
        """Copies `source` to `target`: from host to device, from device to host, or on the
        device."""
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
        if actions:
            us = self.device.cost.measured_us("copy_", (to, what), (to,), 2 * to.nbytes)
            actions = [actions[0]._replace(microseconds=us)]
        execute(
            self.device, Operation(lambda: to.copy_(what), lambda _: actions, [source], [target])
        )

    def _upload(self, target: SimTensor, source: torch.Tensor, non_blocking: bool) -> None:
        device, data = self.device, target.data_on_cpu
        actions = upload(data, source, non_blocking)
        device.check("copy_", actions)
        if non_blocking and _reads_pinned(actions):
            device.host_works(device.cost.op_us)
            send = partial(self._send, data, source, device.source())
            if device.capturing is not None:
                capture_later(device, send, actions, [], [target])
                return
            send(device.perform(actions, writes=[target]))
            return
        if _reads_pinned(actions):
            # The device reads when its stream gets there, after the copies queued before.
            device.settle(by=device.streams.current().free_at)
        elif device.recorder is not None or device.names_lines:
            report_read(device, source)
        # The driver stages pageable bytes in memory of its own, which the host can't overwrite.
        staged = source.clone() if device.in_flight.uploads else source
        execute(device, Operation(lambda: data.copy_(staged), lambda _: actions, [], [target]))
        device.touches_host(source, writes=False)

    def _send(
        self, data: torch.Tensor, source: torch.Tensor, line: SourceLine | None, done_at: float
    ) -> None:
        """Begins an upload to `data` that was queued just now. The device reads host memory,
        `source`, until the copy ends, at `done_at`."""
        device, in_flight = self.device, self.device.in_flight
        device.touches_host(source, writes=False)
        in_flight.ends_at(in_flight.copy(data, source, line), done_at)

    def _download(self, target: torch.Tensor, source: SimTensor, non_blocking: bool) -> None:
        device, data = self.device, source.data_on_cpu
        actions = download(target, data, non_blocking)
        device.check("copy_", actions)
        comes_later = non_blocking and bool(actions) and not actions[-1].pageable
        device.host_works(device.cost.op_us)
        bring = partial(self._bring, target, data, device.source())
        if device.capturing is not None:
            capture_later(device, bring, actions, [source], [])
        elif comes_later:
            bring(device.perform(actions, reads=[source]))
        else:
            device.perform(actions, reads=[source])
            device.touches_host(target, writes=True)
            target.copy_(data)

    def _bring(
        self, target: torch.Tensor, data: torch.Tensor, line: SourceLine | None, done_at: float
    ) -> None:
        """Begins a download from `data` that was queued just now. Its bytes arrive in `target` at
        `done_at`."""
        device, in_flight = self.device, self.device.in_flight
        result = np.empty(nbytes_of(target), np.uint8)
        view = looking_at(result, target)
        run(device, Step(lambda: view.copy_(data), [], [], line))
        coming = in_flight.download_to(target, result, line)
        in_flight.ends_at(coming, done_at)
        device.touches_host(target, writes=True)
        device.settle()


def _reads_pinned(actions: list[Action]) -> bool:
    return any(action.copy_kind == "h2d_pinned" for action in actions)


def _stride_of_copy(
    source: torch.Tensor, memory_format: torch.memory_format | None
) -> tuple[int, ...]:
    """Returns the strides of a copy of `source`: its own if it is contiguous, else those that
    `memory_format` gives, by default its own if it is dense."""
    if source.is_contiguous():
        return tuple(source.stride())
    data = source.data_on_cpu if isinstance(source, SimTensor) else source
    like = torch.empty_like(
        data, device="meta", memory_format=memory_format or torch.preserve_format
    )
    return tuple(like.stride())
