"""The findings of a trace as plain data: for the terminal, for JSON, and for comparing two."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..contract.source_line import SourceLine
from .findings import UNSEEN, Finding, Findings, bare_graphs, find
from .reading import LOST, Trace
from .replay.critical import Share
from .replay.without import MOST_EVENTS, largest
from .rows import FUNCTION, OVERHEAD
from .steps import Step, Steps, find_steps

MOST_PLACES = 200


@dataclass(frozen=True)
class Summary:
    """The findings of a trace, or of one step of it. `notes` are sentences about what the figures
    do not say."""

    label: str
    counts: dict[str, int]
    findings: Findings
    steps: Steps
    step: Step | None
    notes: list[str]
    without: dict[Finding, float] = field(default_factory=dict)
    """The share of the trace's time that is predicted to be gone without each of the largest
    places."""

    path: list[Share] = field(default_factory=list)
    """The parts of the critical path by place, the longest first; empty for a large trace."""

    @property
    def step_us(self) -> float:
        """Microseconds to compare with another trace: of the chosen step, of the usual one, or of
        the whole trace if no steps were found."""
        return (self.step.length if self.step else self.steps.usual) or self.findings.span

    @property
    def idle_share(self) -> float:
        return self.findings.idle / self.findings.span if self.findings.span else 0.0

    def as_json(self) -> dict[str, object]:
        found = self.findings
        places = [
            {"cause": place.cause, "operator": place.operator, "times": place.times}
            | named(place.source)
            | {"idle_us": round(place.microseconds, 3)}
            | {"without_share": round(self.without[place], 4) if place in self.without else None}
            for place in found.places[:MOST_PLACES]
        ]
        return {
            "label": self.label,
            "counts": self.counts,
            "span_us": round(found.span, 3),
            "busy_us": round(found.busy, 3),
            "idle_us": round(found.idle, 3),
            "not_known_us": round(found.causes.get(UNSEEN, 0.0), 3),
            "idle_by_cause_us": {cause: round(time, 3) for cause, time in found.causes.items()},
            "places": places,
            "critical_path": [
                {"kind": kind, "name": name, "share": round(share, 4)} | named(source)
                for kind, source, name, share in self.path[:MOST_PLACES]
            ],
            "steps_found_by": self.steps.found_by,
            "usual_step_us": round(self.steps.usual, 3),
            "steps": [
                {"name": name, "start_us": round(start, 3), "end_us": round(end, 3)}
                for name, start, end in self.steps.steps
            ],
            "notes": self.notes,
        }


def named(source: SourceLine | None) -> dict[str, object]:
    """Returns a line as JSON has it."""
    return {name: getattr(source, name, None) for name in ("file", "line", "function")}


def summarize(trace: Trace, step: int | None = None, measured_us: float | None = None) -> Summary:
    """Returns what a trace says, or what its step with this number, from 1, says. `measured_us` is
    the time of the usual step without a profiler. Raises ValueError for a step that the trace does
    not have, and for a measured time if it has no steps."""
    steps = find_steps(trace)
    chosen = None
    if step is not None:
        if not 1 <= step <= len(steps.steps):
            have = f"{len(steps.steps)} steps" if steps.steps else "no steps that were found"
            raise ValueError(f"there is no step {step}: the trace has {have}")
        chosen = steps.steps[step - 1]
    window = (chosen.start, chosen.end) if chosen else (None, None)
    if measured_us is not None and not steps.usual:
        raise ValueError("no steps were found, so a step's measured time can't be compared")
    counts, found, notes = trace.timeline.counts(), find(trace, *window), notes_of(trace)
    share = None if measured_us is None else measured_us / steps.usual
    without, scale, path = largest(trace, found.places, share)
    if without:
        notes.append(NOTES["scaled" if scale < 1 else "without"].format(scale=scale))
    elif len(trace.timeline.events) > MOST_EVENTS:
        notes.append(f"Traces of more than {MOST_EVENTS:,} calls and kernels are not replayed.")
    return Summary(trace.timeline.label, counts, found, steps, chosen, notes, without, path)


WITHOUT = (
    '"Without it" is the share of the whole trace\'s time that a replay without this place '
    "predicts to be gone. Gains of several places don't add up. Work that a fix adds or drops is "
    "not in it"
)
NOTES = {
    "lost": LOST,
    "no_gpu": "The trace has no work of a GPU: profile with ProfilerActivity.CUDA on a machine "
    "that has one.",
    "bare_graphs": "{count} graph launches have no kernels: this was profiled without the nodes of "
    "graphs, so how busy the device was in them is not known.",
    "no_stacks": "The trace has no stacks, so places are operators: profile with with_stack=True "
    "for functions and files.",
    "stacks": "Stacks slow Python down: times in Python are longer than they are without a "
    "profiler. A place is a function and its first line, since the profiler writes no other.",
    "other_gpus": "This is GPU {device}; the trace also has GPU {others} (--gpu).",
    "without": f"{WITHOUT}, and the host is as slow as under the profiler (--measured).",
    "scaled": f"{WITHOUT}. The host's times are multiplied by {{scale:.2f}}, as the measured step "
    "needs.",
    "overhead": "The profiler itself reports {ms} ms of its own work.",
}
"""Sentences that a reader has to know before using the figures, here and on the site's page."""


def notes_of(trace: Trace) -> list[str]:
    """Returns the sentences of NOTES that hold for a trace."""
    notes, events, rows = list(trace.notes), trace.timeline.events, trace.rows
    if not any(event.on_device for event in events):
        notes.append(NOTES["no_gpu"])
    if bare := bare_graphs(events):
        notes.append(NOTES["bare_graphs"].format(count=f"{len(bare):,}"))
    notes.append(NOTES["stacks" if len(rows.of(FUNCTION)) else "no_stacks"])
    if len(trace.devices) > 1:
        others = ", ".join(str(number) for number in trace.devices if number != trace.device)
        notes.append(NOTES["other_gpus"].format(device=trace.device, others=others))
    overhead = float(rows.duration[rows.of(OVERHEAD)].sum())
    if overhead:
        notes.append(NOTES["overhead"].format(ms=f"{overhead / 1000:.2f}"))
    return notes


@dataclass(frozen=True)
class Change:
    """The idle time of one cause at one place in two traces, in microseconds of one step."""

    cause: str
    place: str
    before: float
    after: float

    @property
    def saved(self) -> float:
        return self.before - self.after


def compare(before: Summary, after: Summary) -> list[Change]:
    """Returns how much idle time each place has in both, a step on average, those that changed most
    first."""
    olds, news = per_step(before), per_step(after)
    changes = [
        Change(*key, olds.get(key, 0.0), news.get(key, 0.0))
        for key in dict.fromkeys([*olds, *news])
    ]
    return sorted(changes, key=lambda change: -abs(change.saved))


def per_step(summary: Summary) -> dict[tuple[str, str], float]:
    steps = 1 if summary.step else max(1, len(summary.steps.steps))
    times: dict[tuple[str, str], float] = {}
    for place in summary.findings.places:
        key = (place.cause, name_of(place))
        times[key] = times.get(key, 0.0) + place.microseconds / steps
    return times


def name_of(place: Finding) -> str:
    """Returns a place without its line, which differs between two versions of a program."""
    function = place.source and f"{place.source.file.rpartition('/')[2]}: {place.source.function}"
    return " at ".join(filter(None, (function, place.operator))) or "no place known"
