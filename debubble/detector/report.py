"""SyncReport: the result of find_host_syncs, as findings, as text and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from ..contract.recorded import Also
from ..contract.source_line import SourceLine
from ..timeline.event import Hazard
from ..timeline.timeline import Timeline
from ..timeline.trace_file import portable_path
from ..views.syncs import text
from .ending import Ending
from .findings import Finding, find, races_of
from .host_bound import find_host_bound
from .loops import Loops, Steps


@dataclass(repr=False)
class SyncReport:
    """The calls of a recording that held up the host: waits first, the costliest first.

    `findings` are those outside `allow_host_sync`, `allowed` those inside it. `timeline` is the
    recording itself. All three are filled when the block of `find_host_syncs` ends. `endings` are
    the exceptions that ended the block, or a thread in it, early. The report knows nothing about
    code that did not run because of them.
    """

    timeline: Timeline
    findings: list[Finding] = field(default_factory=list)
    allowed: list[Finding] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    loops: Loops | None = None
    """The loops of the run, or None if set-up is not to be told from steps."""
    also: frozenset[Also] = frozenset()
    """The kinds that are reported beside waits and races."""
    steps: Steps | None = None
    """The steps of the run, found with `loops` when the block ends."""

    @classmethod
    def of(cls, timeline: Timeline) -> SyncReport:
        """Returns the report on an existing recording, such as one loaded from a file."""
        report = cls(timeline)
        report.fill()
        return report

    def fill(self) -> None:
        if self.loops is not None:
            self.steps = self.loops.steps(self.timeline)
        found = find(self.timeline, self.steps)
        if self.also:
            steps = self.loops.steps(self.timeline, to_the_end=True) if self.loops else None
            found += find_host_bound(self.timeline, self.also, steps)
            if self.steps is None or self.steps.line is None:
                self.steps = steps
        self.findings = [finding for finding in found if not finding.allowed]
        self.allowed = [finding for finding in found if finding.allowed]

    def note(self, error: BaseException | None, thread: str | None = None) -> None:
        """Adds the exception that ended the run, or the named thread, to `endings`. Ignores None
        and a SystemExit with status 0."""
        ending = None if error is None else Ending.of(error, thread)
        if ending is not None:
            self.endings.append(ending)

    @property
    def used_the_device(self) -> bool:
        """True if any event was recorded. If not, a report without findings proves nothing."""
        return bool(self.timeline.events)

    @property
    def races(self) -> list[Hazard]:
        """The races that sim proved, each pair of lines once."""
        return list(races_of(self.timeline))

    def as_dict(self) -> dict[str, object]:
        """Returns the report for a JSON file, with times in microseconds and whether they are
        modelled."""
        return {
            "accelerator": self.timeline.accelerator,
            "times": self.timeline.label,
            "modelled": self.timeline.modelled,
            "cut_off": self.timeline.cut_off,
            "unmeasured": self.timeline.unmeasured,
            "used_the_device": self.used_the_device,
            "steps_of": _steps(self.steps),
            "ended_early": [
                {"type": e.kind, "message": e.message, "thread": e.thread, **_place(e.source)}
                for e in self.endings
            ],
            "races": [
                {
                    "kind": race.kind,
                    "message": race.message,
                    "count": times,
                    "first": _place(race.first),
                    "second": _place(race.second),
                }
                for race, times in races_of(self.timeline).items()
            ],
            "findings": [_row(finding) for finding in self.findings],
            "allowed": [_row(finding) for finding in self.allowed],
        }

    def __str__(self) -> str:
        return text(
            self.timeline, self.findings, self.allowed, endings=self.endings, steps=self.steps
        )

    def __repr__(self) -> str:
        races = f", races={len(self.races)}" if self.timeline.hazards else ""
        return f"SyncReport(findings={len(self.findings)}, allowed={len(self.allowed)}{races})"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self)}


def _row(finding: Finding) -> dict[str, object]:
    source = finding.source
    row = {field.name: getattr(finding, field.name) for field in fields(finding)}
    del row["source"], row["allowed"]
    return {
        **_place(source),
        "inside": [_place(line) for line in (source.inside if source else ())],
        "forward": _place(source.forward) if source and source.forward else None,
        "what": finding.what,
        "is_a_wait": finding.is_a_wait,
        "instead": finding.instead,
        **{
            f"{key}_us" if key in TIMES else key: round(value, 3) if key in TIMES else value
            for key, value in row.items()
        },
    }


def _steps(steps: Steps | None) -> dict[str, object] | None:
    """Returns the loop whose passes are the steps, and how many of its first passes are set-up, or
    None if no loop was found."""
    if steps is None or steps.line is None:
        return None
    return {**_place(steps.line), "skip": steps.skip}


def _place(source: SourceLine | None) -> dict[str, object]:
    return {
        "file": portable_path(source.file) if source else None,
        "line": source.line if source else None,
        "column": source.column if source else None,
        "function": source.function if source else None,
        "code": source.text if source else None,
    }


TIMES = ("held", "worst", "idle")
