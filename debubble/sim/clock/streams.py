"""Streams and events of sim: queues in modelled time, with their order, which races depend on."""

from __future__ import annotations

from typing import Protocol

from debubble.clock.cost import CostModel
from debubble.contract.protocol import Event, Stream, described_by


class Streams(Protocol):
    """The streams of a device, as far as one of them needs the others."""

    def current(self) -> SimStream: ...
    def enter(self, stream: SimStream) -> None: ...
    def leave(self) -> None: ...
    def lane_of(self, stream: int) -> str: ...


class StreamOwner(Protocol):
    """The part of a simulated device that streams and events use: its host clock and streams."""

    cost: CostModel
    now: float

    @property
    def streams(self) -> Streams: ...
    def host_works(self, microseconds: float) -> None: ...
    def host_waits(self, name: str, until: float, seen: dict[int, int]) -> None: ...
    def host_sees(self, seen: dict[int, int]) -> None: ...


@described_by(Stream)
class SimStream:
    """A queue of device work. `free_at` is when its last work ends, in modelled microseconds.

    `seen` maps the number of another stream to how many of its items come before all work queued
    here from now on, because this stream has waited for an event recorded after them.
    """

    def __init__(self, device: StreamOwner, number: int) -> None:
        self.sim = device
        self.number = number
        self.free_at = 0.0
        self.submitted = 0
        self.seen: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<sim stream {self.number}>"

    def __enter__(self) -> SimStream:
        self.sim.streams.enter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        self.sim.streams.leave()

    def record_event(self, event: Event | None = None) -> Event:
        event = event or SimEvent(self.sim)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Makes later work of this stream wait for `event`. Raises TypeError for an event that
        isn't sim's."""
        if not isinstance(event, SimEvent):
            raise TypeError(f"a stream of sim waits for events of sim, not for {event!r}")
        self.sim.host_works(self.sim.cost.event_us)
        if event.recorded:
            self.free_at = max(self.free_at, event.at)
            self.learn(event.seen)

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def follow(self, other: SimStream) -> None:
        """Makes later work of this stream wait for all work queued on `other` so far, as an event
        would, but without host time."""
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


@described_by(Event)
class SimEvent:
    """An event in a stream: `at` is when the work before it ends, in modelled microseconds."""

    def __init__(self, device: StreamOwner) -> None:
        self.sim = device
        self.recorded = False
        self.at = 0.0
        self.seen: dict[int, int] = {}

    def record(self, stream: Stream | None = None) -> None:
        """Records the event in `stream`, by default in the current stream. Raises TypeError for a
        stream that isn't sim's."""
        stream = stream or self.sim.streams.current()
        if not isinstance(stream, SimStream):
            raise TypeError(f"an event of sim is recorded in streams of sim, not in {stream!r}")
        self.sim.host_works(self.sim.cost.event_us)
        # An idle stream reaches the event at once.
        self.at = max(stream.free_at, self.sim.now)
        self.recorded, self.seen = True, stream.knowledge()

    def wait(self, stream: Stream | None = None) -> None:
        (stream or self.sim.streams.current()).wait_event(self)

    def synchronize(self) -> None:
        """Makes the host wait for the event. Returns at once if it was never recorded."""
        if self.recorded:
            self.sim.host_waits("event synchronize", self.at, self.seen)

    def query(self) -> bool:
        """Returns True if the device has reached the event, or the event was never recorded. True
        orders accesses as a wait does, because the host then knows that the work is done."""
        self.sim.host_works(self.sim.cost.event_us)
        if not self.recorded:
            return True
        is_done = self.at <= self.sim.now
        if is_done:
            self.sim.host_sees(self.seen)
        return is_done
