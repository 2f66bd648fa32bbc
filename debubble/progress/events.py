"""The lines of `progress.jsonl`: a header with the version, then one JSON object for each event.

An event has `kind`, `time` (UTC, ISO 8601) and the fields of its kind:

    begun       kata
    attempt     kata, verdict ("passed" or "failed"), passed and tests (numbers), failed (names),
                device
    hint        kata, step
    solution    kata: the solution was shown before the kata was solved
    reset       kata
    prediction  chapter, cell (the question), value (what the reader committed to)
    board       name: as whom a workshop's board may show the learner, "" for no name

Only "\\n" ends a line: a text inside an event may hold any other separator of lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

VERSION = 1
HEADER = b'{"debubble": "progress", "version": %d}\n' % VERSION

ProgressEvent = Mapping[str, object]


@dataclass(frozen=True)
class Standing:
    """A learner's progress with a kata."""

    solved: bool = False
    attempts: int = 0
    hints: int = 0
    begun: bool = False
    spoiled: bool = False
    """True if the solution was shown before the kata was solved."""

    @property
    def state(self) -> str:
        return "solved" if self.solved else "begun" if self.begun else "new"

    def after(self, event: ProgressEvent) -> Standing:
        match event.get("kind"):
            case "attempt":
                solved = self.solved or event.get("verdict") == "passed"
                return replace(self, solved=solved, attempts=self.attempts + 1, begun=True)
            case "hint":
                step = event.get("step")
                hints = max(self.hints, step if isinstance(step, int) else 0)
                return replace(self, hints=hints)
            case "begun":
                return replace(self, begun=True)
            case "solution":
                return replace(self, spoiled=self.spoiled or not self.solved)
            case "reset":
                return replace(self, solved=False, begun=False)
        return self


def written(events: Iterable[ProgressEvent]) -> bytes:
    """Returns the lines of `events`; an event without a time gets the current time."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    lines = [
        json.dumps({"kind": event["kind"], "time": time, **event}, ensure_ascii=False) + "\n"
        for event in events
    ]
    return "".join(lines).encode(errors="replace")


def parsed(content: bytes, longest: int | None = None) -> Iterator[ProgressEvent]:
    """Yields the events in a file's bytes, oldest first. A line that holds no event is skipped, as
    is one of more than `longest` bytes: a torn line, an empty one, the header, anything else."""
    for line in content.split(b"\n"):
        if longest is None or len(line) <= longest:
            event = parsed_line(line)
            if isinstance(event.get("kind"), str):
                yield event


def parsed_line(line: bytes) -> ProgressEvent:
    """Returns the JSON object in a line of `progress.jsonl`, or {} if the line holds none."""
    try:
        found = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def version_of(line: bytes) -> int | None:
    """Returns the version that a header names, or None for a line that is no header."""
    found = parsed_line(line)
    version = found.get("version")
    return version if isinstance(version, int) and "kind" not in found else None
