"""The data of a recording: the host's calls, the device's work, and their times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar, cast

from .bubbles import CAUSES, Bubble, Cause, device_work, find_bubbles, find_gaps
from .event import COPY_KINDS, Event, Hazard, Step
from .holds import find_holds

Recorded = TypeVar("Recorded", bound="TimelineData")
"""The type of timeline that a function takes and returns: a part of a Timeline is a Timeline
too."""

Found = TypeVar("Found")


@dataclass(repr=False)
class TimelineData:
    """Events and hazards of one recording; all times are microseconds.

    `description` names the source of the times ("NVIDIA H200", "sim, modelled on NVIDIA H200");
    `modelled` is True when they come from a cost model and not from a clock. `cut_off` is True if
    the recording was full before its block ended, and holds the beginning only. `unmeasured`
    has the operators whose counts were never seen on a GPU, so that sim's are a guess. `steps` are
    the named steps of the program, in the order in which they ended.
    """

    accelerator: str
    description: str
    modelled: bool
    events: list[Event] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)
    cut_off: bool = False
    unmeasured: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Returns the number of host syncs, of copies of each kind, of kernels and of graph
        launches; the same on sim and on CUDA. `host_syncs` are calls that synchronise;
        `kept_by_copies` has waits without one."""
        kinds = [event.kind for event in self.events]
        copies = [event.copy_kind for event in self.events if event.kind == "copy"]
        return {
            "host_syncs": kinds.count("sync"),
            **{kind: copies.count(kind) for kind in COPY_KINDS},
            "kernels": kinds.count("kernel"),
            "graph_launches": kinds.count("graph_launch"),
        }

    def kept_by_copies(self) -> int:
        """Returns how often a download into pageable memory kept the host until the device was
        done, though it was asked not to block. CUDA calls nothing that synchronises for it, so it
        is none of the `host_syncs`; `no_host_syncs` refuses it."""
        return sum(hold.kind == "pageable_download" for hold in find_holds(self.events))

    @property
    def label(self) -> str:
        """The source of the times, in words that belong beside every picture of them."""
        word = "modelled" if self.modelled else "measured"
        return self.description if word in self.description else f"{word} on {self.description}"

    @property
    def length(self) -> float:
        """Microseconds from end to end: from the first event's start to the last one's end."""
        first = min((event.start for event in self.events), default=0.0)
        return max((event.end for event in self.events), default=0.0) - first

    @property
    def span(self) -> float:
        """Microseconds from the start of the first device event to the end of the last."""
        return self.device_span()

    def device_span(self, ignore_sleep: bool = False) -> float:
        """Returns `span`; with `ignore_sleep` it starts when a leading sleep kernel ends."""
        device = device_work(self.events, ignore_sleep)
        return device.end - device.start if device else 0.0

    def busy(self, ignore_sleep: bool = False) -> float:
        """Returns the microseconds of `span` in which the device computes (see
        `debubble.timeline.bubbles`)."""
        return self._span_and_busy(ignore_sleep)[1]

    def idle_share(self, ignore_sleep: bool = False) -> float:
        """Returns the share of `span`, 0 to 1, in which the device does not compute."""
        span, busy = self._span_and_busy(ignore_sleep)
        return 1.0 - busy / span if span else 0.0

    def _span_and_busy(self, ignore_sleep: bool) -> tuple[float, float]:
        device = device_work(self.events, ignore_sleep)
        if device is None:
            return 0.0, 0.0
        idle = sum(gap.end - gap.start for gap in find_gaps(self.events, device))
        span = device.end - device.start
        return span, span - idle

    def idle_by_cause(self, ignore_sleep: bool = False) -> dict[Cause, float]:
        """Returns the share of `span`, 0 to 1, that the device waited, for each cause."""
        shares: dict[Cause, float] = dict.fromkeys(CAUSES, 0.0)
        span = self.device_span(ignore_sleep)
        for bubble in self.bubbles(ignore_sleep):
            shares[bubble.cause] += bubble.duration / span
        return shares

    def bubbles(self, ignore_sleep: bool = False) -> list[Bubble]:
        """Returns the idle device time in order, each stretch with its cause and the line to look
        at."""
        return find_bubbles(self.events, ignore_sleep)

    def launch_of(self, event: Event) -> Event | None:
        """Returns the host call that launched a device event, or None if it was not recorded."""
        return None if event.launched_by is None else self.events[event.launched_by]

    def since(self: Recorded, time: float) -> Recorded:
        """Returns the timeline from `time` on, which becomes 0. Events in flight at `time` are cut;
        an earlier launch is kept, with duration 0, if its kernel ends after `time`."""
        launches = {event.launched_by for event in self.events if event.end > time}
        kept = [i for i, event in enumerate(self.events) if event.end > time or i in launches]
        place = {old: new for new, old in enumerate(kept)}
        events = []
        for event in (self.events[i] for i in kept):
            start, end = max(0.0, event.start - time), max(0.0, event.end - time)
            launch = None if event.launched_by is None else place[event.launched_by]
            events.append(replace(event, start=start, duration=end - start, launched_by=launch))
        steps = [
            Step(step.name, max(0.0, step.start - time), step.end - time)
            for step in self.steps
            if step.end > time
        ]
        return replace(self, events=events, hazards=list(self.hazards), steps=steps)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={count}" for name, count in self.counts().items())
        kept = self.kept_by_copies()
        return f"{type(self).__name__}({counts}{f', kept_by_copies={kept}' if kept else ''})"


@dataclass(repr=False)
class Finished(TimelineData):
    """A recording that no longer changes, so bubbles, span and busy time are computed once and
    stored."""

    _found: dict[tuple[str, bool], object] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def of(cls, timeline: TimelineData) -> Finished:
        """Returns `timeline` as a Finished that shares its events, or `timeline` itself if it is a
        Finished already."""
        if isinstance(timeline, cls):
            return timeline
        return cls(**{one.name: getattr(timeline, one.name) for one in fields(TimelineData)})

    def bubbles(self, ignore_sleep: bool = False) -> list[Bubble]:
        return self._once("bubbles", super().bubbles, ignore_sleep)

    def device_span(self, ignore_sleep: bool = False) -> float:
        return self._once("span", super().device_span, ignore_sleep)

    def _span_and_busy(self, ignore_sleep: bool) -> tuple[float, float]:
        return self._once("busy", super()._span_and_busy, ignore_sleep)

    def _once(self, name: str, find: Callable[[bool], Found], ignore_sleep: bool) -> Found:
        key = name, ignore_sleep
        if key not in self._found:
            self._found[key] = find(ignore_sleep)
        return cast(Found, self._found[key])
