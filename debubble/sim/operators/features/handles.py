"""`torch.Event`, `torch.Stream` and `torch.accelerator.synchronize()` on sim. PyTorch would need a
C++ device for them, which a backend written in Python can't offer."""

from __future__ import annotations

from typing import Any

import torch

from ...clock.device import SimDevice
from ...clock.streams import SimEvent, SimStream

_EVENT, _STREAM = torch.Event, torch.Stream
_DEVICE = "sim"


class EventOnSim:
    """An event of sim with the methods of `torch.Event`."""

    def __init__(self, device: SimDevice, enable_timing: bool = False) -> None:
        self._event = SimEvent(device)
        self._simulated = device
        self._enable_timing = enable_timing

    @property
    def device(self) -> torch.device:
        return torch.device(_DEVICE, 0)

    @property
    def event_id(self) -> int:
        return id(self._event)

    def record(self, stream: Any = None) -> None:
        self._event.record(_stream_of(stream))

    def wait(self, stream: Any = None) -> None:
        self._event.wait(_stream_of(stream))

    def query(self) -> bool:
        return self._event.query()

    def synchronize(self) -> None:
        self._event.synchronize()

    def elapsed_time(self, end_event: Any) -> float:
        """Returns the modelled milliseconds from this event to `end_event`.

        Raises ValueError unless both are timed and recorded events of sim, and RuntimeError if one
        is not done yet."""
        if not (isinstance(end_event, EventOnSim) and self._is_timed() and end_event._is_timed()):
            raise ValueError(
                "elapsed_time needs two events of sim, recorded and made with enable_timing=True"
            )
        if not (self.query() and end_event.query()):
            raise RuntimeError("an event is not done yet: synchronize with the later one first")
        return (end_event._event.at - self._event.at) / 1e3

    def _is_timed(self) -> bool:
        return self._enable_timing and self._event.recorded


class StreamOnSim:
    """A stream of sim, with the methods of `torch.Stream`."""

    def __init__(self, device: SimDevice, stream: SimStream | None = None) -> None:
        self._simulated = device
        self._stream = stream or device.streams.new()

    @property
    def device(self) -> torch.device:
        return torch.device(_DEVICE, 0)

    @property
    def number(self) -> int:
        return self._stream.number

    @property
    def stream_id(self) -> int:
        return self._stream.number

    @property
    def device_index(self) -> int:
        return 0

    def is_capturing(self) -> bool:
        """Returns True while any graph of sim is being captured, because a capture takes the work
        of all streams."""
        return self._simulated.capturing is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamOnSim) and other._stream is self._stream

    def __hash__(self) -> int:
        return hash(self._stream)

    def __enter__(self) -> StreamOnSim:
        self._stream.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.__exit__(*exception)

    def record_event(self, event: Any = None) -> Any:
        event = event or EventOnSim(self._simulated)
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        self._stream.wait_stream(_stream_of(stream))

    def query(self) -> bool:
        return self._stream.query()

    def synchronize(self) -> None:
        self._stream.synchronize()


def _stream_of(stream: Any) -> Any:
    return stream._stream if isinstance(stream, StreamOnSim) else stream


def install(device: SimDevice) -> None:
    setattr(torch, "Event", _leading_to(_EVENT, EventOnSim, device))  # noqa: B010  # a class
    setattr(torch, "Stream", _leading_to(_STREAM, StreamOnSim, device))  # noqa: B010

    def synchronize(device_index: Any = None, /) -> None:
        device.synchronize()

    def current_stream(device_index: Any = None, /) -> StreamOnSim:
        return StreamOnSim(device, device.streams.current())

    def set_stream(stream: Any) -> None:
        device.streams.set(_stream_of(stream))

    for function in (synchronize, current_stream, set_stream):
        setattr(torch.accelerator, function.__name__, function)


def _leading_to(of_pytorch: type, on_sim: type, device: SimDevice) -> type:
    """Returns a class to replace `of_pytorch`, such as `torch.Event`: a call makes an `on_sim`
    object for sim, and PyTorch's for any other device. Both kinds count as its instances."""

    class Either(type(of_pytorch)):  # type: ignore[misc]  # a class known only at run time
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (of_pytorch, on_sim))

        def __call__(cls, where: Any = None, *args: Any, **options: Any) -> Any:
            where = options.pop("device", where)
            if where is None or torch.device(where).type == _DEVICE:
                timed = {k: v for k, v in options.items() if k == "enable_timing"}
                return on_sim(device, **timed)
            return of_pytorch(where, *args, **options)

    return Either(of_pytorch.__name__, (), {"__doc__": of_pytorch.__doc__})
