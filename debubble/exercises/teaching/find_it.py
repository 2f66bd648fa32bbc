"""Questions about a recording: which line costs the most, by which mechanism, and how much goes
with it. A kata's test reads the recording and the choices, and says why a choice is wrong.

The right answers are computed: `<program>.json` has the recording, and `<program>.mended.json` its
length, and that of another recording for each line, in which only that line was changed.
"""

from __future__ import annotations

import json
import tomllib
from functools import cached_property
from pathlib import Path

from debubble.contract.source_line import SourceLine
from debubble.timeline.event import Event
from debubble.timeline.timeline import Timeline

from .claims import draw, source_lines
from .diagnosis import Diagnosis, KataFailure

PARTS = {
    "line": "the line whose change shortens the recording the most",
    "kind": "the mechanism by which that line costs time",
    "gain": "the share of the recording that goes if that line is changed",
}
UNANSWERED = "?"
CHANGED = "With this line alone changed"


class FindIt:
    """The questions about one recording, with a reason for each choice that is wrong."""

    def __init__(self, path: Path) -> None:
        """Takes the path of `<program>.toml`, which has the choices. The recordings lie beside
        it."""
        self.path = path
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        self.reasons: dict[str, dict[str, str]] = {
            "line": {line["at"]: line["why"] for line in content["line"]},
            "kind": {kind["name"]: kind["why"] for kind in content["kind"]},
            "gain": {f"{gain['percent']} %": gain["why"] for gain in content["gain"]},
        }
        """The reasons why a choice is wrong, by part and choice."""
        self.how = {line["at"]: line.get("tried", CHANGED) for line in content["line"]}
        """How the length without a line was found, by line."""

    @cached_property
    def timeline(self) -> Timeline:
        return Timeline.load(self.path.with_suffix(".json"))

    @cached_property
    def mended(self) -> dict[str, float]:
        """The length of the recording in which only this line was changed, in microseconds, by
        line. The key "" has the length of the recording itself."""
        text = self.path.with_suffix(".mended.json").read_text(encoding="utf-8")
        return json.loads(text)

    def gain(self, line: str) -> float | None:
        """Returns the percent of the recording that go with a line, or None if it was not tried."""
        after = self.mended.get(line)
        return None if after is None else 100 * (1 - after / self.mended[""])

    def right(self, part: str) -> str:
        """Returns the right choice of a part."""
        line = max(self.reasons["line"], key=lambda line: self.gain(line) or 0.0)
        if part == "line":
            return line
        if part == "kind":
            return kind_of(self.timeline, line)
        gain = self.gain(line) or 0.0
        return min(self.reasons["gain"], key=lambda choice: abs(_percent(choice) - gain))

    def check(self, part: str, answers: object) -> None:
        """Checks one part of a learner's answers, a dict with the keys of PARTS. Raises KataFailure
        for a wrong choice, with the reason."""
        choices = self.reasons[part]
        answer = answers.get(part, UNANSWERED) if isinstance(answers, dict) else answers
        choice = next((one for one in choices if _same(one, answer)), None)
        if choice == self.right(part):
            return
        lines: tuple[tuple[SourceLine, int], ...] = ()
        drawing = ""
        if choice is None:
            did = f"has no answer to {part!r} yet" if answer == UNANSWERED else f"has {answer!r}"
            shown = "/".join(self.path.with_suffix(".json").parts[-4:])
            why = f"Choose one of: {', '.join(choices)}.\n\n    debubble trace {shown}"
        else:
            did, why = f"chose {choice!r}", " ".join(choices[choice].split())
        if choice is not None and part == "line":
            events = events_of(self.timeline, choice)
            lines, drawing = source_lines(events)[:1], draw(self.timeline, events)
            why = f"{why}\n\n{self._tried(choice)}".strip()
        raise KataFailure(Diagnosis(f"{part!r} to be {PARTS[part]}", did, lines, drawing, why))

    def _tried(self, line: str) -> str:
        gain = self.gain(line)
        if gain is None:
            return ""
        before, after = self.mended[""] / 1000, self.mended[line] / 1000
        return f"{self.how[line]}, it takes {after:.2f} ms instead of {before:.2f} ms."


def events_of(timeline: Timeline, line: str) -> list[Event]:
    """Returns the events of a line, which is given as `file.py:7`."""
    return [event for event in timeline.events if str(event.source).startswith(f"{line}:")]


def kind_of(timeline: Timeline, line: str) -> str:
    """Returns the mechanism by which a line costs time: it waits for an upload from pageable
    memory, or for a value; it puts a copy in the way of kernels; or it launches kernels late."""
    events = events_of(timeline, line)
    copies = {event.copy_kind for event in events if event.kind == "copy"}
    if any(event.kind == "sync" for event in events):
        return "pageable upload" if "h2d_pageable" in copies else "read on the host"
    return "copy in the way" if "h2d_pinned" in copies else "late launches"


def _percent(choice: str) -> float:
    return float(choice.removesuffix("%"))


def _same(choice: str, answer: object) -> bool:
    """True if a learner's answer means this choice: `"30 %"` may be 30, and `"a.py:7"` may be 7."""
    given = str(answer).replace(" ", "")
    plain = choice.replace(" ", "")
    return given in (plain, plain.removesuffix("%"), plain.rpartition(":")[2]) and bool(given)
