"""A group: whoever has a progress file below one folder, and what the board shows of them
together."""

from __future__ import annotations

import hashlib
import heapq
import os
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from debubble.progress import NAME
from debubble.workshop.kata_files.catalogue import Kata

from .learner import Learner
from .safe_file import Read, Version, read

MOST_LEARNERS = 1_000
PLACES = (
    ("my", NAME),
    ("debubble", "my", NAME),
    (NAME,),
)
"""Where, below a learner's folder: a clone, a home of the hub's, a workspace."""
MOST_QUESTIONS = 100
"""Three times what the chapters ask: one who makes questions up hides nobody's."""
HERE_SECONDS = 300.0
"""Who was heard of within them is at work."""


@dataclass(frozen=True)
class Member:
    """Whose file is looked for, and where."""

    name: str
    folder: Path
    below: tuple[str, ...] = ()
    """On the way from `folder` on, and not to be a link."""
    owner: int | None = None
    """The user id of whom the file must be, where that is known."""


@dataclass
class Seat:
    """A learner, and the version of the file that is known of them."""

    parts: tuple[str, ...]
    version: Version
    learner: Learner
    is_cut: bool


class Group:
    def __init__(self, folder: Path, katas: Sequence[Kata]) -> None:
        self.folder, self.katas = folder, katas
        self.names = {kata.name for kata in katas}
        self.seats: dict[str, Seat] = {}
        self.salt = secrets.token_bytes(16)

    def members(self) -> Sequence[Member]:
        """Whoever has a folder here. OSError where the group's can't be read."""
        with os.scandir(self.folder) as entries:
            there = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        return [Member(name, self.folder, (name,)) for name in there]

    def look(self) -> None:
        """Reads what is new. OSError where the folder itself can't be read."""
        members = self.members()[:MOST_LEARNERS]
        for gone in self.seats.keys() - {member.name for member in members}:
            del self.seats[gone]
        now = time.time()
        for member in members:
            self._look_at(member, now)

    def _look_at(self, member: Member, now: float) -> None:
        seat = self.seats.get(member.name)
        for place in [()] if member.below and member.name.endswith(".jsonl") else PLACES:
            parts = (*member.below, *place)
            known = seat.version if seat and seat.parts == parts else None
            found = read(member.folder, parts, known, member.owner)
            if isinstance(found, Read):
                learner = Learner.of(found.content, self.names, now)
                self.seats[member.name] = Seat(parts, found.version, learner, found.is_cut)
            if found:
                return
        self.seats.pop(member.name, None)

    def shown(self, revealed: Mapping[str, str], *, teaches: bool) -> dict[str, object]:
        """All that the page shows, for whoever teaches or for a learner: of a prediction these see
        what the others said once it is revealed."""
        now = time.time()
        rows = [self._row(number, name, seat, now) for number, (name, seat) in self._numbered()]
        return {
            "katas": [
                {"name": kata.name, "chapter": kata.chapter, "title": kata.title}
                for kata in self.katas
            ],
            "learners": rows,
            "stops": self._stops(now),
            "predictions": predictions(
                (seat.learner for seat in self.seats.values()), revealed, teaches=teaches
            ),
        }

    def _numbered(self) -> list[tuple[int, tuple[str, Seat]]]:
        """In an order that says nothing of who they are."""
        hidden = lambda item: hashlib.sha256(self.salt + item[0].encode(errors="replace")).digest()
        return [*enumerate(sorted(self.seats.items(), key=hidden), start=1)]

    def _row(self, number: int, name: str, seat: Seat, now: float) -> dict[str, object]:
        learner = seat.learner
        current = learner.current
        states = {
            kata.name: learner.standings[kata.name].state
            for kata in self.katas
            if kata.name in learner.standings
        }
        standing = learner.standings.get(current) if current else None
        return {
            "who": learner.name or f"learner {number}",
            "is_named": bool(learner.name),
            "states": states,
            "solved": sum(state == "solved" for state in states.values()),
            "current": current,
            "minutes": _minutes(learner.begun.get(current or ""), now),
            "attempts": standing.attempts if standing else 0,
            "hints": standing.hints if standing else 0,
            "is_here": now - learner.last < HERE_SECONDS,
            "quiet_minutes": _minutes(learner.last, now),
            "is_cut": seat.is_cut,
        }

    def _stops(self, now: float) -> list[dict[str, object]]:
        """The katas at which somebody is, those that keep most of them first."""
        waiting: dict[str, list[int]] = defaultdict(list)
        for seat in self.seats.values():
            learner = seat.learner
            if learner.current in learner.begun:
                minutes = _minutes(learner.begun[learner.current], now) or 0
                waiting[learner.current].append(minutes)
        tried = Counter(
            kata
            for seat in self.seats.values()
            for kata, standing in seat.learner.standings.items()
            if standing.solved
        )
        return [
            {"kata": kata, "at": len(at), "solved": tried[kata], "longest": max(at)}
            for kata, at in sorted(waiting.items(), key=lambda item: (-len(item[1]), -max(item[1])))
        ]


def predictions(
    learners: Iterable[Learner], revealed: Mapping[str, str], *, teaches: bool
) -> list[dict[str, object]]:
    """A histogram of each question that most have answered, in the chapters' order."""
    said: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for learner in learners:
        for key, words in learner.predictions.items():
            said[key][words] += 1
    found = []
    answered = heapq.nlargest(MOST_QUESTIONS, said.items(), key=lambda one: one[1].total())
    for (chapter, question), counts in sorted(answered):
        name = key_of(chapter, question)
        is_revealed = name in revealed
        shows = teaches or is_revealed
        found.append(
            {
                "key": name,
                "chapter": chapter,
                "question": question,
                "count": counts.total(),
                "revealed": is_revealed,
                "answer": revealed.get(name, ""),
                "said": sorted(counts.items(), key=_by_number) if shows else [],
            }
        )
    return found


def key_of(chapter: str, question: str) -> str:
    return hashlib.sha256(f"{chapter}\n{question}".encode()).hexdigest()[:16]


def _by_number(item: tuple[str, int]) -> tuple[float, str]:
    """Numbers in their order, then words in theirs."""
    first = item[0].replace(",", "").partition(" ")[0]
    try:
        return (float(first), item[0])
    except ValueError:
        return (float("inf"), item[0])


def _minutes(since: float | None, now: float) -> int | None:
    return int((now - since) / 60) if since else None
