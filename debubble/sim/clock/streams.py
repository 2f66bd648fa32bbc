"""Streams and events of sim: queues in modelled time, with who-knows-what for finding races."""

from __future__ import annotations

from typing import Protocol

from debubble.contract.protocol import Event, Stream

from .cost import CostModel


class Device(Protocol):
    """What streams and events ask of the device: its clocks, its threads' streams, its records."""

    cost: CostModel
    now: float

    def current_stream(self) -> SimStream: ...
    def enter_stream(self, stream: SimStream) -> None: ...
    def leave_stream(self) -> None: ...
    def lane_of(self, stream: int) -> str: ...
    def host_works(self, microseconds: float) -> None: ...
    def host_waits(self, name: str, until: float, seen: dict[int, int]) -> None: ...
    def host_sees(self, seen: dict[int, int]) -> None: ...


class SimStream:
    """A queue of device work. `free_at` is when its last work ends, in modelled microseconds.

    `seen` maps a stream's number to how much of its work is known to come before anything that
    is queued here from now on: through an event, or because the host has waited for it.
    """

    def __init__(self, device: Device, number: int) -> None:
        self.sim = device
        self.number = number
        self.free_at = 0.0
        self.submitted = 0
        self.seen: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<sim stream {self.number}>"

    def __enter__(self) -> SimStream:
        self.sim.enter_stream(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.sim.leave_stream()

    def record_event(self, event: Event | None = None) -> Event:
        event = event or SimEvent(self.sim)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """TypeError for an event that isn't sim's."""
        if not isinstance(event, SimEvent):
            raise TypeError(f"a stream of sim waits for events of sim, not for {event!r}")
        self.sim.host_works(self.sim.cost.event_us)
        if event.recorded:
            self.free_at = max(self.free_at, event.at)
            self.learn(event.seen)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def follow(self, other: SimStream) -> None:
        """Waits for what `other` has by now, as an event of it would make this stream do."""
        if other is not self:
            self.learn(other.knowledge())
            self.free_at = max(self.free_at, other.free_at)

    def synchronize(self) -> None:
        self.sim.host_waits("stream synchronize", self.free_at, self.knowledge())

    def query(self) -> bool:
        self.sim.host_works(self.sim.cost.event_us)
        is_done = self.free_at <= self.sim.now
        if is_done:
            self.sim.host_sees(self.knowledge())
        return is_done

    def knowledge(self) -> dict[int, int]:
        return {**self.seen, self.number: self.submitted}

    def learn(self, seen: dict[int, int]) -> None:
        for number, count in seen.items():
            if count > self.seen.get(number, 0):
                self.seen[number] = count


class SimEvent:
    """A mark in a stream: `at` is when the work before it ends."""

    def __init__(self, device: Device) -> None:
        self.sim = device
        self.recorded = False
        self.at = 0.0
        self.seen: dict[int, int] = {}

    def record(self, stream: Stream | None = None) -> None:
        """TypeError for a stream that isn't sim's."""
        stream = stream or self.sim.current_stream()
        if not isinstance(stream, SimStream):
            raise TypeError(f"an event of sim is recorded in streams of sim, not in {stream!r}")
        self.sim.host_works(self.sim.cost.event_us)
        # A stream that is idle reaches the mark when the host makes it.
        self.at = max(stream.free_at, self.sim.now)
        self.recorded, self.seen = True, stream.knowledge()

    def wait(self, stream: Stream | None = None) -> None:
        (stream or self.sim.current_stream()).wait_event(self)

    def synchronize(self) -> None:
        """An event that was never recorded is complete, and asks nothing of the device."""
        if self.recorded:
            self.sim.host_waits("event synchronize", self.at, self.seen)

    def query(self) -> bool:
        """True orders as a wait does: the host knows that the work is done."""
        self.sim.host_works(self.sim.cost.event_us)
        if not self.recorded:
            return True
        is_done = self.at <= self.sim.now
        if is_done:
            self.sim.host_sees(self.seen)
        return is_done
