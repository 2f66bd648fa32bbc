"""Reads a Chrome trace's JSON event by event, so that memory holds only one part of the text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from ..timeline.trace_file import TraceFileError
from .text import Path, texts

EVENTS = "traceEvents"
MOST_CHARACTERS = 2**22
"""The most characters of one event, or of one value beside the events."""
NEAR = 64
"""An error that is fewer characters than this before the end of the text so far may be because the
rest is not read yet."""
SPACES = re.compile(r"[ \t\n\r]*")
BETWEEN = re.compile(r"[ \t\n\r,]*")
scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder(strict=False))["scan_once"]


class JsonStream:
    """The text of one file, read once from its start to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts = texts(path)
        self._text, self._at, self._passed = "", 0, 0

    @property
    def place(self) -> str:
        return f"character {self._passed + self._at:,}"

    def damaged(self, what: str) -> TraceFileError:
        return TraceFileError(f"{self.path} is not a trace that can be read: {what}.")

    def read(self, event: Callable[[object], None]) -> dict[str, object]:
        """Calls `event` for each item of `traceEvents`, and returns the other entries of the
        top-level object. Raises TraceFileError, with the place, for anything else."""
        self._expect_object()
        header: dict[str, object] = {}
        has_events = False
        while (character := self._next(BETWEEN)) != "}":
            if character != '"':
                raise self._wrong("a name in quotes")
            name = self._value()
            if self._next(SPACES) != ":":
                raise self._wrong("a colon")
            self._at += 1
            if name == EVENTS and self._next(SPACES) == "[":
                has_events = True
                self._at += 1
                for item in self._items():
                    event(item)
            else:
                header[name] = self._value()
        self._at += 1
        if self._next(SPACES):
            raise self._wrong("the end of the file")
        if not has_events:
            raise self.damaged(f"it has no list {EVENTS}")
        return header

    def _expect_object(self) -> None:
        first = self._next(SPACES)
        if first == "\ufeff":
            self._at += 1
            first = self._next(SPACES)
        if first == "[":
            raise self.damaged("it is a list, and torch.profiler writes an object with traceEvents")
        if first != "{":
            raise self.damaged("it is not JSON" if first else "it is empty")
        self._at += 1

    def _items(self) -> Iterator[Any]:
        """Yields the items of the list that begins at the current place, and passes its end."""
        while self._next(BETWEEN) != "]":
            text, at = self._text, self._at
            try:
                while text[at] == "{":
                    item, end = scan(text, at)
                    self._at = end
                    yield item
                    passed = BETWEEN.match(text, end)
                    at = passed.end() if passed else end
                    self._at = at
            except (json.JSONDecodeError, StopIteration, IndexError):
                pass
            except (RecursionError, ValueError) as error:
                raise self._refused(error) from None
            if self._next(BETWEEN) != "]":
                yield self._value()
        self._at += 1

    def _value(self) -> Any:
        """Returns the value that begins at the current place, and passes it."""
        self._next(SPACES)
        while True:
            try:
                value, end = scan(self._text, self._at)
                if end < len(self._text) or not self._fill():
                    self._at = end
                    return value
            except StopIteration as stopped:
                self._more_or_wrong(stopped.value, "a value")
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated string")
                place = len(self._text) if unfinished else error.pos
                self._more_or_wrong(place, error.msg.lower().removeprefix("expecting "))
            except (RecursionError, ValueError) as error:
                raise self._refused(error) from None

    def _more_or_wrong(self, place: int, expected: str) -> None:
        """Reads on if the text so far ends soon after `place`, where something is wrong."""
        if place + NEAR < len(self._text):
            self._at = place
            raise self._wrong(expected)
        if len(self._text) - self._at > MOST_CHARACTERS:
            raise self.damaged(f"one value at {self.place} has more than 4 MB")
        if not self._fill():
            if place + NEAR < len(self._text):
                self._at = place
                raise self._wrong(expected)
            raise self._cut_off()

    def _next(self, passing: re.Pattern[str]) -> str:
        """Passes what matches, and returns the next character without passing it, "" at the end."""
        while True:
            matched = passing.match(self._text, self._at)
            self._at = matched.end() if matched else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def _fill(self) -> bool:
        """Reads the next part and forgets what was passed. Returns False at the end of the file."""
        part = next(self._parts, "")
        if part:
            self._passed += self._at
            self._text, self._at = self._text[self._at :] + part, 0
        return bool(part)

    def _wrong(self, expected: str) -> TraceFileError:
        if self._at >= len(self._text):
            return self._cut_off()
        found = ascii(self._text[self._at : self._at + 12])
        return self.damaged(f"at {self.place} there is {found} where {expected} belongs")

    def _cut_off(self) -> TraceFileError:
        self._at = len(self._text)
        return self.damaged(
            f"it ends at {self.place}, in the middle: the profiler may still be writing it"
        )

    def _refused(self, error: Exception) -> TraceFileError:
        what = "nests too deep" if isinstance(error, RecursionError) else "has a number too long"
        return self.damaged(f"a value at {self.place} {what}")
