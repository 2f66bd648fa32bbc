"""The board's data about one learner: which katas, since when, what they predicted, and their name.

All of it comes from a file that they could have written by hand, so none of it is trusted: a kata
counts if the catalogue has it, a time if it is one, a text without its control characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from debubble.progress import ProgressEvent, Standing, parsed

LONGEST_LINE = 20_000
LONGEST_TEXT = 300
LONGEST_NAME = 30
MOST_PREDICTIONS = 500


@dataclass
class Participant:
    standings: dict[str, Standing] = field(default_factory=dict)
    begun: dict[str, float] = field(default_factory=dict)
    """The time at which each kata was begun or first tried, in seconds since 1970."""
    solved: dict[str, float] = field(default_factory=dict)
    current: str | None = None
    """The kata of the last event, or None if that event solved it or was a prediction."""
    asked: tuple[str, str] | None = None
    """The (chapter, question) of the last event, or None if that was a kata's."""
    done: str | None = None
    """The kata that the last event solved, or None."""
    moved: float = 0.0
    """The time of the last event of a kata or prediction, in seconds since 1970."""
    last: float = 0.0
    """The time of the last event, in seconds since 1970."""
    predictions: dict[tuple[str, str], str] = field(default_factory=dict)
    """The learner's last prediction for each question, by (chapter, question)."""
    name: str | None = None
    """The name that the learner chose to show on the board: "" for none, None until they choose."""

    @classmethod
    def of(cls, content: bytes, katas: Container[str], now: float) -> Participant:
        learner = cls()
        for event in parsed(content, LONGEST_LINE):
            learner.hear(event, katas, now)
        return learner

    def hear(self, event: ProgressEvent, katas: Container[str], now: float) -> None:
        time = _seconds(event.get("time"), now)
        self.last = max(self.last, time)
        kind, kata = event.get("kind"), event.get("kata")
        if kind == "prediction":
            self._predict(event, time)
        elif kind == "board":
            self.name = plain(event.get("name"), LONGEST_NAME)
        elif isinstance(kata, str) and kata in katas:
            before = self.standings.get(kata, Standing())
            standing = self.standings[kata] = before.after(event)
            if kind == "reset":
                self.begun.pop(kata, None)
                self.solved.pop(kata, None)
            elif standing.begun:
                self.begun.setdefault(kata, time)
            if standing.solved:
                self.solved.setdefault(kata, time)
                self._move(time, done=kata)
            else:
                self._move(time, current=kata)

    def place(self, sections: Mapping[tuple[str, str], str]) -> str:
        """Returns where the learner is: at a kata, done with one, in the section of their last
        prediction, or "" before all of that. `sections` has the headings by (chapter, question)."""
        if not self.asked:
            return f"solved {self.done}" if self.done else self.current or ""
        chapter, _ = self.asked
        if heading := sections.get(self.asked):
            return f"{chapter} · {heading}"
        return f"chapter {chapter}" if chapter.isdecimal() else "a chapter"

    def since(self) -> float | None:
        """Returns the time since when the learner is there, in seconds since 1970."""
        return self.begun.get(self.current) if self.current else self.moved or None

    def _predict(self, event: ProgressEvent, time: float) -> None:
        question = plain(event.get("cell"), LONGEST_TEXT)
        said = plain(event.get("value"), LONGEST_TEXT)
        key = (plain(event.get("chapter"), 4), question)
        if (
            question
            and said
            and (key in self.predictions or len(self.predictions) < MOST_PREDICTIONS)
        ):
            self.predictions[key] = said
            self._move(time, asked=key)

    def _move(
        self,
        time: float,
        *,
        current: str | None = None,
        done: str | None = None,
        asked: tuple[str, str] | None = None,
    ) -> None:
        self.moved, self.current, self.done, self.asked = time, current, done, asked


def plain(value: object, most: int) -> str:
    """Returns `value` as one line of at most `most` characters, without those that a terminal or a
    page would obey: escapes, and characters that turn the direction of writing. A number is written
    out, any other type becomes ""."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    text = value if isinstance(value, str) else f"{value:.12g}" if abs(value) < 1e15 else ""
    kept = (c if unicodedata.category(c)[0] != "C" else " " for c in text[: 4 * most])
    return " ".join("".join(kept).split())[:most]


def _seconds(time: object, now: float) -> float:
    """Returns the seconds since 1970 of a time in the learner's file, at most `now`; 0 for a value
    that is no time."""
    if not isinstance(time, str) or len(time) > 40:
        return 0.0
    try:
        when = datetime.fromisoformat(time)
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
    return min(max(0.0, seconds), now)
