"""A group: all learners with a progress file below one folder, and the board's data about them
together."""

from __future__ import annotations

import hashlib
import heapq
import math
import os
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from debubble.exercises.kata_files.catalogue import Kata
from debubble.progress import NAME

from .learner import LONGEST_TEXT, Participant, plain
from .safe_file import Read, Version, read

MOST_LEARNERS = 1_000
PLACES = (
    ("my", NAME),
    ("debubble", "my", NAME),
    (NAME,),
)
"""The places of a learner's `progress.jsonl` below their folder: in a clone, in a home of the hub,
in a workspace."""
MOST_QUESTIONS = 100
"""The most questions of which the board shows predictions, three times as many as the chapters
have: those with the most answers, so that one learner's invented questions hide no real ones."""
HERE_SECONDS = 300.0
"""Seconds since a learner's last event within which they count as present."""


@dataclass(frozen=True)
class Member:
    """A learner whose `progress.jsonl` is looked for, and the folder to look in."""

    name: str
    folder: Path
    below: tuple[str, ...] = ()
    """The parts of the path from `folder` to the learner's own folder or file. None may be a
    link."""
    owner: int | None = None
    """The user id that must own the file, if it is known."""
    agreed: str = ""
    """The name to show, if the learner agreed to it when they logged in."""


@dataclass
class Seat:
    """A learner as last read from their `progress.jsonl`, and the version of the file that was
    read."""

    parts: tuple[str, ...]
    version: Version
    learner: Participant
    is_cut: bool
    agreed: str

    @property
    def name(self) -> str:
        """The name to show: the learner's own choice, or else what they agreed to when they logged
        in; "" for no name."""
        return self.agreed if self.learner.name is None else self.learner.name


class Group:
    def __init__(self, folder: Path, katas: Sequence[Kata]) -> None:
        self.folder, self.katas = folder, katas
        self.minutes_of = {kata.name: kata.minutes for kata in katas}
        self.seats: dict[str, Seat] = {}
        self.salt = secrets.token_bytes(16)

    def members(self) -> Sequence[Member]:
        """Returns a member for each folder or file in the group's folder, sorted by name; hidden
        ones are left out. Raises OSError if the group's folder can't be read."""
        with os.scandir(self.folder) as entries:
            there = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        return [Member(name, self.folder, (name,)) for name in there]

    def look(self) -> None:
        """Reads the progress files that have changed, and drops learners whose file is gone. Raises
        OSError if the group's folder itself can't be read."""
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
                learner = Participant.of(found.content, self.minutes_of, now)
                self.seats[member.name] = Seat(
                    parts, found.version, learner, found.is_cut, member.agreed
                )
            if found:
                self.seats[member.name].agreed = member.agreed
                return
        self.seats.pop(member.name, None)

    def shown(
        self,
        revealed: Mapping[str, str],
        *,
        teaches: bool,
        known: Mapping[str, str] = MappingProxyType({}),
        sections: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> dict[str, object]:
        """Returns the data of the board's page: katas, learners, and predictions. A learner's page
        (`teaches` False) has the predictions for a question only once its answer is in
        `revealed`. `known` has the chapters' answers by the question's key, for the teacher;
        `sections` the headings by (chapter, question)."""
        now = time.time()
        rows = [self._row(number, seat, sections, now) for number, (_, seat) in self._numbered()]
        return {
            "katas": [
                {"name": kata.name, "chapter": kata.chapter, "title": kata.title}
                for kata in self.katas
            ],
            "learners": rows,
            "stops": self._stops(now),
            "predictions": predictions(
                (seat.learner for seat in self.seats.values()),
                revealed,
                teaches=teaches,
                known=known,
            ),
        }

    def _numbered(self) -> list[tuple[int, tuple[str, Seat]]]:
        """Returns each seat as (number from 1, (learner's folder, seat)), in a random order that
        stays the same: so a number reveals nothing about who sits there."""
        hidden = lambda item: hashlib.sha256(self.salt + item[0].encode(errors="replace")).digest()
        return [*enumerate(sorted(self.seats.items(), key=hidden), start=1)]

    def _row(
        self, number: int, seat: Seat, sections: Mapping[tuple[str, str], str], now: float
    ) -> dict[str, object]:
        learner = seat.learner
        current = learner.current
        states = {
            kata.name: learner.standings[kata.name].state
            for kata in self.katas
            if kata.name in learner.standings
        }
        standing = learner.standings.get(current) if current else None
        return {
            "who": seat.name or f"learner {number}",
            "is_named": bool(seat.name),
            "states": states,
            "solved": sum(state == "solved" for state in states.values()),
            "current": current,
            "at": learner.place(sections),
            "minutes": _minutes(learner.since(), now),
            "attempts": standing.attempts if standing else 0,
            "hints": standing.hints if standing else 0,
            "is_here": now - learner.last < HERE_SECONDS,
            "quiet_minutes": _minutes(learner.last, now),
            "is_cut": seat.is_cut,
        }

    def _stops(self, now: float) -> list[dict[str, object]]:
        """Returns for each kata that learners are working on: how many of them, how many for longer
        than the kata's minutes, how many learners have solved it, and the most minutes that one has
        been at it. Katas with the most learners over their minutes come first, then those with the
        most learners."""
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
        late = {
            kata: sum(minutes > (self.minutes_of[kata] or math.inf) for minutes in at)
            for kata, at in waiting.items()
        }
        most_first = sorted(
            waiting.items(), key=lambda item: (-late[item[0]], -len(item[1]), -max(item[1]))
        )
        return [
            {
                "kata": kata,
                "at": len(at),
                "minutes": self.minutes_of[kata],
                "over": late[kata],
                "solved": tried[kata],
                "longest": max(at),
            }
            for kata, at in most_first
        ]


def predictions(
    learners: Iterable[Participant],
    revealed: Mapping[str, str],
    *,
    teaches: bool,
    known: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, object]]:
    """Returns each of the most answered questions with a count of each answer, in the chapters'
    order. For learners the counts are left out until the question is in `revealed`; the answer in
    `known` is for the teacher alone."""
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
                "known": known.get(name, "") if teaches else "",
                "said": sorted(counts.items(), key=_by_number) if shows else [],
            }
        )
    return found


def key_of(chapter: str, question: str) -> str:
    """Returns the key of a question, whose text is cut as in a learner's file."""
    question = plain(question, LONGEST_TEXT)
    return hashlib.sha256(f"{chapter}\n{question}".encode()).hexdigest()[:16]


def _by_number(item: tuple[str, int]) -> tuple[float, str]:
    """Returns the sort key of (answer, count): answers that begin with a number come first, by that
    number, and the others after them by their words."""
    first = item[0].replace(",", "").partition(" ")[0]
    try:
        return (float(first), item[0])
    except ValueError:
        return (float("inf"), item[0])


def _minutes(since: float | None, now: float) -> int | None:
    return int((now - since) / 60) if since else None
