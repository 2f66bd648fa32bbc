"""The steps of a program in its trace: by annotations, or by kernels that repeat."""

from __future__ import annotations

import re
import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..timeline.event import Event
from .names import PREFIX
from .reading import Trace
from .rows import ANNOTATION, Integers

NUMBERED = re.compile(r"(.*?)[#_ ]?\d+")
FEWEST = 3
SAME = 0.9
"""The share of kernels that have to repeat after one period."""
OUTLIER = 1.3
"""A step that takes this many times the usual one is an outlier."""


class Step(NamedTuple):
    """One step: when the device begins its first work and that of the next step, microseconds of
    the timeline."""

    name: str
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


class Steps(NamedTuple):
    """The steps that were found, and how: "annotations", "repeated kernels", or "" for none."""

    steps: list[Step]
    found_by: str

    @property
    def usual(self) -> float:
        """Microseconds of the usual step: the median."""
        return statistics.median(step.length for step in self.steps) if self.steps else 0.0

    @property
    def outliers(self) -> list[Step]:
        return [step for step in self.steps if step.length > OUTLIER * self.usual]


def find_steps(trace: Trace) -> Steps:
    found = by_annotations(trace)
    if len(found) >= 2:
        return Steps(found, "annotations")
    found = by_period(trace)
    return Steps(found, "repeated kernels" if found else "")


def by_annotations(trace: Trace) -> list[Step]:
    """Returns the steps that annotations mark: those of the profiler (`ProfilerStep#3`), or else
    the ones of one name, but for a number, that take the most time. A step's work is what the
    calls in its annotation launch."""
    rows = trace.rows
    groups: dict[str, list[int]] = defaultdict(list)
    for row in rows.of(ANNOTATION).tolist():
        name = rows.names[rows.name[row]]
        if not name.startswith((PREFIX, "enumerate(", "Optimizer.", "## Call CompiledFxGraph")):
            matched = NUMBERED.fullmatch(name)
            groups[matched[1] if matched else name].append(row)
    candidates = [found for found in groups.values() if len(found) >= 2]
    if "ProfilerStep" in groups:
        candidates = [groups["ProfilerStep"]]
    if not candidates:
        return []
    chosen = max(candidates, key=lambda found: float(rows.duration[found].sum()))
    chosen.sort(key=lambda row: float(rows.start[row]))
    names = [rows.names[rows.name[row]] for row in chosen]
    starts = [float(rows.start[row]) - trace.origin for row in chosen]
    last = starts[-1] + float(rows.duration[chosen[-1]])
    return steps_of(trace, names, [*starts, last])


def steps_of(trace: Trace, names: Sequence[str], edges: Sequence[float]) -> list[Step]:
    """Returns a step for each name: the device's work that was launched between its edge and the
    next one."""
    events = trace.timeline.events
    first: dict[int, float] = {}
    end = 0.0
    for event in events:
        if event.on_device and event.launched_by is not None:
            launched = events[event.launched_by].start
            at = bisect_right(edges, launched) - 1
            if 0 <= at < len(names):
                first[at] = min(first.get(at, event.start), event.start)
                end = max(end, event.end)
    order = sorted(first)
    begins = [first[at] for at in order] + [end]
    return [
        Step(names[at], begin, following)
        for at, begin, following in zip(order, begins, begins[1:], strict=False)
        if following > begin
    ]


def by_period(trace: Trace) -> list[Step]:
    """Returns the steps between which the device's work repeats. A step is what lies between two
    events of the rarest kind that comes at equal distances: a layer repeats as well, but a step
    has events that are none of its layers'."""
    work = sorted((e for e in trace.timeline.events if e.on_device), key=lambda e: e.start)
    if len(work) < 2 * FEWEST:
        return []
    names = [event.name for event in work]
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    sequence = np.array([codes[name] for name in names])
    for name, count in sorted(Counter(names).items(), key=lambda item: item[1]):
        if count < FEWEST:
            continue
        places = np.flatnonzero(sequence == codes[name])
        gaps = np.diff(places)
        period = int(np.median(gaps))
        if period < 2 or np.mean(gaps == period) < SAME / 2:
            continue
        if np.mean(sequence[period:] == sequence[:-period]) < SAME:
            continue
        if are_layers(work, places):
            continue
        begins = [work[place].start for place in places]
        return [
            Step(f"step {number}", begin, following)
            for number, (begin, following) in enumerate(pairwise(begins), start=1)
        ]
    return []


def are_layers(work: Sequence[Event], places: Integers) -> bool:
    """Returns True if one call launched several of what repeats from these places on: a graph has
    the layers of a step, and no two steps."""
    calls = Counter(work[place].launched_by for place in places)
    del calls[None]
    return any(count > 1 for count in calls.values())
