"""Bubbles: the gaps in which the device could compute and does not, each with its cause.

The device *computes* while a kernel or a memset runs on any stream. All other time between the
first and the last device event is idle, and every idle stretch waits for the next kernel. The
bubble is named after the cause that held that kernel back:

- **waiting for a copy**: a copy runs, and the kernel has to wait for it: the kernel is on the same
  stream, or it was launched and still has not started.
- **waiting for the host**: the host had not finished launching the kernel, or had only just: the
  way from a late launch to the device, up to `LAUNCH_GAP`, counts as the host's as well.
- **waiting for a kernel**: the kernel was launched in time and starts within `LAUNCH_GAP`, the
  small gap that a device needs between two kernels.
- **other**: the kernel was launched in time, and started later than that for an unknown reason.

A gap with several causes is cut into one bubble for each. Copies after the last kernel hold no
kernel back: they count as work, and so do all copies if no kernel runs at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..contract.source_line import SourceLine
from .event import HOST_LANE, Event

Cause = Literal["waiting for the host", "waiting for a copy", "waiting for a kernel", "other"]
CAUSES: tuple[Cause, ...] = (
    "waiting for the host",
    "waiting for a copy",
    "waiting for a kernel",
    "other",
)

HOLDING = ("sync", "python", "compile", "alloc")
"""The kinds of host events that hold the next launch, besides the calls themselves."""
LAUNCH_GAP = 10.0
# In a measured trace the host's clock and the device's agree only to a few microseconds.
CLOCK_SLACK = 5.0
# Shorter stretches are within a timestamp's rounding, and count as no gap.
SMALLEST_GAP = 0.005


@dataclass(frozen=True, slots=True)
class Bubble:
    """Idle time before `next_event`, in microseconds; `source` is the line to look at.

    For *waiting for the host* `source` is the line of the host sync that held the host when the gap
    began, or within the gap; without such a sync, the line of the launch that came too late.
    `held_by` is that sync, or the copy that was waited for.
    """

    start: float
    duration: float
    cause: Cause
    source: SourceLine | None
    next_event: Event
    held_by: Event | None = None

    @property
    def end(self) -> float:
        return self.start + self.duration


class DeviceWork(NamedTuple):
    """The device's work from `start` to `end` (microseconds): indices into `Timeline.events`.

    `work` has the events that count as computing, `copies` the copies that kernels may have waited
    for; both in the order of their starts.
    """

    start: float
    end: float
    work: list[int]
    copies: list[int]


class Gap(NamedTuple):
    start: float
    end: float
    next_index: int


def device_work(events: Sequence[Event], ignore_sleep: bool = False) -> DeviceWork | None:
    """Returns the device's side of a recording, or None when it has no device events.

    With `ignore_sleep`, kernels named "sleep" that come before all others are left out, and time
    starts when the last of them ends: they only load the queue. Events that ran beside them lie
    before that start.
    """
    starts = [event.start for event in events]
    ends = [event.start + event.duration for event in events]
    order = [i for i, event in enumerate(events) if event.lane != HOST_LANE]
    order.sort(key=starts.__getitem__)
    start = starts[order[0]] if order else 0.0
    if ignore_sleep:
        sleeps = 0
        while sleeps < len(order) and events[order[sleeps]].name == "sleep":
            start = max(start, ends[order[sleeps]])
            sleeps += 1
        order = order[sleeps:]
    if not order:
        return None
    end = max(start, max(map(ends.__getitem__, order)))
    last_compute = max((ends[i] for i in order if events[i].kind != "copy"), default=start)
    work: list[int] = []
    copies: list[int] = []
    for i in order:
        waited_for = events[i].kind == "copy" and ends[i] <= last_compute
        (copies if waited_for else work).append(i)
    return DeviceWork(start, end, work, copies)


def find_gaps(events: Sequence[Event], device: DeviceWork) -> Iterator[Gap]:
    """Yields the periods longer than SMALLEST_GAP in which no stream computes, in order, each with
    the index of the event that ends it."""
    reached = device.start
    for index in device.work:
        event = events[index]
        start, end = event.start, event.start + event.duration
        if start - reached > SMALLEST_GAP:
            yield Gap(reached, start, index)
        if end > reached:
            reached = end


def find_bubbles(events: Sequence[Event], ignore_sleep: bool = False) -> list[Bubble]:
    """Returns every bubble of a recording, in order of time."""
    device = device_work(events, ignore_sleep)
    if device is None:
        return []
    first_of_launch: dict[int, int] = {}
    starts = [event.start for event in events]
    for index in sorted((*device.work, *device.copies), key=starts.__getitem__):
        launched_by = events[index].launched_by
        if launched_by is not None:
            first_of_launch.setdefault(launched_by, index)
    syncs = syncs_by_thread(events)

    bubbles: list[Bubble] = []
    running: list[Event] = []
    ahead = 0
    for gap in find_gaps(events, device):
        while ahead < len(device.copies) and events[device.copies[ahead]].start < gap.end:
            running.append(events[device.copies[ahead]])
            ahead += 1
        running = [copy for copy in running if copy.end > gap.start]

        waiting = events[gap.next_index]
        launched_by, launch = waiting.launched_by, None
        # A graph launch starts many kernels and copies: only before the first of them a kernel
        # waits for the call.
        if launched_by is not None and starts[first_of_launch[launched_by]] >= gap.start:
            launch = events[launched_by]
        launched = min(max(launch.end, gap.start), gap.end) if launch else gap.start
        for start, end, cause, copy in split_gap(gap, waiting, launched, running):
            held_by, source = copy, waiting.source
            if copy is not None:
                source = copy.source
            elif cause == "waiting for the host" and launch is not None:
                held_by = holding_sync(syncs[launch.thread], gap, launch)
                source = (held_by and held_by.source) or launch.source or waiting.source
            bubbles.append(Bubble(start, end - start, cause, source, waiting, held_by))
    return bubbles


def split_gap(
    gap: Gap, waiting: Event, launched: float, copies: Sequence[Event]
) -> Iterator[tuple[float, float, Cause, Event | None]]:
    """Splits a gap before the event `waiting` by cause: at `launched`, when the host was done
    launching that event, and at the copies in it. Yields start, end, cause, and the copy that was
    waited for. Without a launch the host was never late."""
    held: list[tuple[float, float, Event | None]] = []
    for copy in copies:
        # Another stream's copy holds the kernel only once it is launched: before that the host is
        # late.
        start = max(copy.start, gap.start if copy.lane == waiting.lane else launched)
        end = min(copy.end, gap.end)
        if end - start > SMALLEST_GAP:
            held.append((start, end, copy))
    held.sort(key=lambda part: part[0])

    reached = gap.start
    for start, end, held_by in (*held, (gap.end, gap.end, None)):
        start = max(start, reached)
        late = min(max(launched, reached), start)
        if late - reached > SMALLEST_GAP and start - late <= LAUNCH_GAP:
            late = start
        if late - reached > SMALLEST_GAP:
            yield reached, late, "waiting for the host", None
        if start - late > SMALLEST_GAP:
            cause: Cause = "waiting for a kernel" if start - late <= LAUNCH_GAP else "other"
            yield late, start, cause, None
        if end - start > SMALLEST_GAP:
            yield start, end, "waiting for a copy", held_by
        reached = max(reached, end)


def syncs_by_thread(events: Iterable[Event]) -> defaultdict[str | None, list[Event]]:
    """Returns the syncs of each thread, and what else holds its launches, in the order of their
    starts."""
    syncs: defaultdict[str | None, list[Event]] = defaultdict(list)
    for event in sorted((e for e in events if e.kind in HOLDING), key=lambda e: e.start):
        syncs[event.thread].append(event)
    return syncs


def holding_sync(syncs: Sequence[Event], gap: Gap, launch: Event) -> Event | None:
    """Returns the last of `syncs`, as `syncs_by_thread` has them, that began before `launch`, or
    None if it had ended before the gap began, so that it didn't delay the launch."""
    before = bisect_left(syncs, launch.start, key=lambda sync: sync.start) - 1
    if before >= 0 and syncs[before].end > gap.start - CLOCK_SLACK:
        return syncs[before]
    return None
