"""`torch.cuda.Stream`, `torch.cuda.Event` and related classes, as streams and events of sim."""

from __future__ import annotations

from typing import Any

import torch

from debubble.contract.protocol import Event as AnyEvent
from debubble.contract.protocol import Stream as AnyStream

from ...clock.device import SimDevice
from ...clock.streams import SimEvent, SimStream
from ..refusing import check_index

NOT_RECORDED = "Both events must be recorded before calculating elapsed time."
NOT_TIMED = "Both events must be created with argument 'enable_timing=True'."
NOT_DONE = (
    "CUDA error: device not ready: the device hasn't reached the second event yet, so call its "
    "synchronize() before elapsed_time()"
)


class Stream(SimStream):
    """A stream of sim with the attributes and methods of `torch.cuda.Stream`."""

    of: SimDevice
    """The device that the stream belongs to, set on a subclass for each accelerator."""

    def __init__(self, device: Any = None, priority: int = 0, **identity: Any) -> None:
        check_index(index_of(device))
        super().__init__(self.of, len(self.of.streams.all))
        self.of.streams.all.append(self)
        self._priority = priority

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", 0)

    @property
    def device_index(self) -> int:
        return 0

    @property
    def device_type(self) -> int:
        return 1

    @property
    def cuda_stream(self) -> int:
        """The stream's number, where CUDA has a pointer. 0 is the default stream in both."""
        return self.number

    @property
    def stream_id(self) -> int:
        return self.number

    @property
    def priority(self) -> int:
        return getattr(self, "_priority", 0)

    def is_capturing(self) -> bool:
        return self.of.capturing is not None

    def record_event(self, event: AnyEvent | None = None) -> AnyEvent:
        # A stream can outlive the `as_cuda` block, and then `torch.cuda.Event` is PyTorch's own.
        made: Any = torch.cuda.Event
        if event is None and issubclass(made, SimEvent):
            event = made()
        return super().record_event(event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SimStream) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 number={self.number}, on sim>"

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, -5


class Event(SimEvent):
    """An event of sim with the attributes and methods of `torch.cuda.Event`, such as
    `elapsed_time`."""

    of: SimDevice

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        *more: Any,
        **options: Any,
    ) -> None:
        super().__init__(self.of)
        self.enable_timing = enable_timing
        self.reached_at = 0.0
        """The time at which the device reached the event, in microseconds. On an idle stream this
        is the time at which the event was recorded."""

    def record(self, stream: AnyStream | None = None) -> None:
        super().record(stream)
        self.reached_at = max(self.at, self.sim.now)

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", 0)

    def elapsed_time(self, end_event: Event) -> float:
        """Returns the modelled milliseconds from this event to `end_event`.

        Raises ValueError if an event is not recorded or not timed, and RuntimeError if the device
        has not reached both events, as CUDA does."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError(NOT_TIMED)
        if not (self.recorded and end_event.recorded):
            raise ValueError(NOT_RECORDED)
        if max(self.at, end_event.at) > self.sim.now:
            raise RuntimeError(NOT_DONE)
        return (end_event.reached_at - self.reached_at) / 1e3


class GenericEvent(Event):
    """Replaces `torch.Event`, whose first argument is the device."""

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **more: Any) -> None:
        super().__init__(enable_timing)


class StreamContext:
    """Replaces `with torch.cuda.stream(s):`, which makes `s` the current stream, and has no effect
    for None."""

    def __init__(self, stream: SimStream | None) -> None:
        self.stream = stream

    def __enter__(self) -> SimStream | None:
        return self.stream and self.stream.__enter__()

    def __exit__(self, *exception: object) -> None:
        if self.stream is not None:
            self.stream.__exit__(*exception)


def index_of(device: Any) -> int | None:
    """Returns the index of a device, given as an int, a name or a `torch.device`, or None if it has
    none."""
    if device is None or isinstance(device, int):
        return device
    return torch.device(device).index
