"""What a learner tried, saw and solved: `progress.jsonl` in their workspace.

Its first line says of which version it is, and each other line is one event, an object with
`kind`, `time` (UTC) and what belongs to its kind:

    begun       kata
    attempt     kata, verdict ("passed" or "failed"), passed and tests (numbers), failed (names),
                device
    hint        kata, step
    solution    kata: the solution was shown before the kata was solved
    reset       kata
    prediction  chapter, cell, and whatever the chapter keeps of it
    board       name: as whom a workshop's board may show them, "" for nobody

Whoever wants to know how somebody stands reads it, or `debubble progress --json`, and runs nobody's
code.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .catalogue import Kata, WorkshopError
from .stub_files import write_whole
from .workspace import Workspace, cannot_write

VERSION = 1
HEADER = {"debubble": "progress", "version": VERSION}
MOST_BYTES = 1_000_000
ROOM = 800_000
"""To so many bytes a file is thinned that has grown beyond MOST_BYTES."""

Event = Mapping[str, object]


@dataclass(frozen=True)
class Standing:
    """How far a learner is with a kata."""

    solved: bool = False
    attempts: int = 0
    hints: int = 0
    begun: bool = False
    spoiled: bool = False
    """The solution was shown before it was solved."""

    @property
    def state(self) -> str:
        return "solved" if self.solved else "begun" if self.begun else "new"

    def after(self, event: Event) -> Standing:
        match event.get("kind"):
            case "attempt":
                passed = event.get("verdict") == "passed"
                solved = self.solved or passed
                return Standing(solved, self.attempts + 1, self.hints, True, self.spoiled)
            case "hint":
                step = event.get("step")
                hints = max(self.hints, step if isinstance(step, int) else 0)
                return Standing(self.solved, self.attempts, hints, self.begun, self.spoiled)
            case "begun":
                return Standing(self.solved, self.attempts, self.hints, True, self.spoiled)
            case "solution":
                spoiled = self.spoiled or not self.solved
                return Standing(self.solved, self.attempts, self.hints, self.begun, spoiled)
            case "reset":
                return Standing(False, self.attempts, self.hints, False, self.spoiled)
        return self


class Progress:
    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.path = workspace.progress_file

    @property
    def shown_path(self) -> str:
        root = self.workspace.root
        return str(self.path.relative_to(root) if self.path.is_relative_to(root) else self.path)

    def events(self) -> list[Event]:
        """From the oldest on; a line that says nothing to us is left out. WorkshopError where the
        file can't be read."""
        return [event for line in self._lines() if "kind" in (event := _parsed(line))]

    def standings(self) -> dict[str, Standing]:
        """By the kata's name; those of which nothing is known are left out."""
        standings: dict[str, Standing] = {}
        for event in self.events():
            name = event.get("kata")
            if isinstance(name, str):
                standings[name] = standings.get(name, Standing()).after(event)
        return standings

    def add(self, kind: str, kata: Kata | None = None, **about: object) -> None:
        """Remembers one event. WorkshopError where that is not possible: nothing was changed."""
        self.add_all([(kind, kata, about)])

    def add_all(self, events: Iterable[tuple[str, Kata | None, Mapping[str, object]]]) -> None:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        new = []
        for kind, kata, about in events:
            of = {"kata": kata.name} if kata else {}
            new.append(json.dumps({"kind": kind, "time": time, **of, **about}, ensure_ascii=False))
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _alone(self.path.parent):
                lines = self._lines()
                self._keep_older(lines)
                text = _text([*lines, *new])
                write_whole(self.path, text if len(text) <= MOST_BYTES else _thinned(lines + new))
        except OSError as error:
            raise cannot_write(self.shown_path, error) from None

    def _lines(self) -> list[str]:
        """Without the header."""
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or error
            raise WorkshopError(
                f"{self.shown_path} can't be read ({reason}): move it away to begin a new one"
            ) from None
        version = _parsed(lines[0]).get("version") if lines else VERSION
        if isinstance(version, int) and version > VERSION:
            raise WorkshopError(
                f"{self.shown_path} is of version {version}, and this debubble knows {VERSION}: "
                "bring the workbook up to date"
            )
        return [line for line in lines if line.strip() and not _is_header(line)]

    def _keep_older(self, lines: list[str]) -> None:
        """What was written before there were versions is kept beside the file."""
        if lines and not _is_header(self.path.read_text(encoding="utf-8").splitlines()[0]):
            older = self.path.with_name(f"{self.path.name}.old")
            if not older.exists():
                write_whole(older, self.path.read_bytes())


def _parsed(line: str) -> Event:
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return {}


def _is_header(line: str) -> bool:
    return "version" in (found := _parsed(line)) and "kind" not in found


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in [json.dumps(HEADER), *lines]).encode()


def _thinned(lines: list[str]) -> bytes:
    """The oldest attempts go first, but for the last one of each kata and the last that solved it;
    then whatever is oldest."""
    events = [_parsed(line) for line in lines]
    attempts = [n for n, event in enumerate(events) if event.get("kind") == "attempt"]
    kept = {event.get("kata"): n for n in attempts for event in [events[n]]}
    passed = {
        event.get("kata"): n
        for n in attempts
        for event in [events[n]]
        if event.get("verdict") == "passed"
    }
    dear = {*kept.values(), *passed.values()}
    others = [n for n in range(len(lines)) if n not in dear and n not in set(attempts)]
    size = len(_text(lines))
    gone = set()
    for n in [*(n for n in attempts if n not in dear), *others, *sorted(dear)]:
        if size <= ROOM:
            break
        gone.add(n)
        size -= len(lines[n].encode()) + 1
    return _text([line for n, line in enumerate(lines) if n not in gone])


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process of ours writes below `folder` meanwhile, where the system can say so."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    file = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network drives know no locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
