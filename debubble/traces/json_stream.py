"""Reads a Chrome trace's JSON event by event, so that memory holds only one part of the text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from ..timeline.trace_format import TraceFileError
from .text import Path, texts

EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
MOST_CHARACTERS = 2**22
"""The most characters of one event, before the events, and after them."""
NEAR = 64
"""An error that is fewer characters than this before the end of the text so far may be because the
rest is not read yet."""
BETWEEN = re.compile(r"[ \t\n\r,]*")
scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder(strict=False))["scan_once"]


class JsonStream:
    """The text of one file, read once from its start to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts = texts(path)
        self._text, self._at, self._passed = "", 0, 0

    def damaged(self, what: str) -> TraceFileError:
        return TraceFileError(f"{self.path} is not a trace that can be read: {what}.")

    def read(self, event: Callable[[object], None]) -> dict[str, object]:
        """Calls `event` for each item of `traceEvents`, and returns the other entries of the
        top-level object. Raises TraceFileError, with the place, for anything else."""
        before, start = self._up_to_events(), self._passed + self._at
        if EVENTS.search(before):
            for item in self._items():
                event(item)
            start = self._passed + self._at
            while len(self._text) - self._at < MOST_CHARACTERS and self._fill():
                pass
        header = self._header(before, self._text[self._at :], start)
        if not isinstance(header, dict) or not isinstance(header.get("traceEvents"), list):
            raise self.damaged("it has no list traceEvents")
        return header

    def _up_to_events(self) -> str:
        """Passes and returns the text up to the first event, or all text if there is none."""
        while not (found := EVENTS.search(self._text, self._at)):
            if self._text.isspace():
                self._at = len(self._text)
            if len(self._text) - self._at > MOST_CHARACTERS or not self._fill():
                break
        end = found.end() if found else len(self._text)
        text = self._text[self._at : end].lstrip("\ufeff \t\n\r")
        self._at = end
        if text.startswith("["):
            raise self.damaged("it is a list, and torch.profiler writes an object with traceEvents")
        if not text.startswith("{"):
            raise self.damaged("it is not JSON" if text else "it is empty")
        return text

    def _items(self) -> Iterator[Any]:
        """Yields the items of the list that begins at the current place, up to its end."""
        text, at = self._text, self._at
        while True:
            passed = BETWEEN.match(text, at)
            at = passed.end() if passed else at
            if text.startswith("]", at):
                break
            try:
                item, at = scan(text, at)
            except StopIteration as stopped:
                text, at = self._more(at, stopped.value, "a value")
            except json.JSONDecodeError as error:
                text, at = self._more(at, *place_of(error, text))
            except (RecursionError, ValueError) as error:
                raise self._refused(error, self._passed + at) from None
            else:
                yield item
        self._at = at

    def _more(self, at: int, wrong: int, expected: str) -> tuple[str, int]:
        """Reads on, since the text so far ends soon after `wrong`, where it can't be read. Returns
        the text, and the place in it that was `at`."""
        self._at = at
        if len(self._text) - at > MOST_CHARACTERS:
            raise self.damaged(f"one value at {character(self._passed + at)} has more than 4 MB")
        if wrong + NEAR < len(self._text) or not self._fill():
            raise self._wrong(self._text, wrong, self._passed, expected)
        return self._text, self._at

    def _header(self, before: str, after: str, start: int) -> object:
        """Returns the value of the text before and after the events. `start` is the place of the
        text after them in the file."""
        text = before + after
        try:
            return json.loads(text, strict=False)
        except json.JSONDecodeError as error:
            wrong, expected = place_of(error, text)
            if error.msg == "Extra data":
                expected = "the end of the file"
                text += " " * NEAR
            skipped = start - len(before) if wrong >= len(before) else 0
            raise self._wrong(text, wrong, skipped, expected) from None
        except (RecursionError, ValueError) as error:
            raise self._refused(error, 0) from None

    def _fill(self) -> bool:
        """Reads the next part and forgets what was passed. Returns False at the end of the file."""
        part = next(self._parts, "")
        if part:
            self._passed += self._at
            self._text, self._at = self._text[self._at :] + part, 0
        return bool(part)

    def _wrong(self, text: str, at: int, before: int, expected: str) -> TraceFileError:
        """Returns the error of a text that begins after `before` characters of the file and is
        wrong at `at`, or that ends there too early."""
        if at + NEAR >= len(text):
            place = character(before + len(text))
            return self.damaged(
                f"it ends at {place}, in the middle: the profiler may still be writing it"
            )
        found = ascii(text[at : at + 12])
        return self.damaged(
            f"at {character(before + at)} there is {found} where {expected} belongs"
        )

    def _refused(self, error: Exception, at: int) -> TraceFileError:
        what = "nests too deep" if isinstance(error, RecursionError) else "has a number too long"
        return self.damaged(f"a value at {character(at)} {what}")


def place_of(error: json.JSONDecodeError, text: str) -> tuple[int, str]:
    """Returns where a text is wrong, and what belongs there. A string without an end is wrong where
    the text ends."""
    is_unfinished = error.msg.startswith("Unterminated string")
    expected = error.msg.lower().removeprefix("expecting ")
    return len(text) if is_unfinished else error.pos, expected


def character(at: int) -> str:
    return f"character {at:,}"
