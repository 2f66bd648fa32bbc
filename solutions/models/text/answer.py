"""The text of an answer while its tokens arrive, without half characters and without stop
strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

HALF = "\ufffd"
"""The character that a tokenizer returns for bytes that are no whole character yet."""

LONGEST = 4
"""The most bytes of a character in UTF-8, and so the most ids that it may take."""
MOST_PENDING = 16
"""The number of ids without a whole character after which all but the last are taken as they
are."""


class DecodesIds(Protocol):
    def decode(self, ids: Sequence[int]) -> str: ...


class AnswerText:
    """An incremental decoder: `add` takes new ids and returns the text that is certain, each part
    once."""

    def __init__(self, tokenizer: DecodesIds, stop: Sequence[str] = ()) -> None:
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self.stopped_by: str | None = None
        self._ids: list[int] = []
        self._before, self._read = 0, 0
        """Ids from `_before` on are decoded again with each part, since a token's text depends on
        the tokens before it. The text of the ids up to `_read` is known."""
        self._held = ""

    def add(self, ids: Sequence[int]) -> str:
        """Adds new ids, and returns the text that has become certain with them. Empty after a stop
        string."""
        if self.stopped_by is not None:
            return ""
        self._ids += ids
        known = self.tokenizer.decode(self._ids[self._before : self._read])
        text = self.tokenizer.decode(self._ids[self._before :])
        if len(text) <= len(known) or text.endswith(HALF):
            return self._overdue(known, text)
        self._before, self._read = self._read, len(self._ids)
        return self._cut(text[len(known) :])

    def _overdue(self, known: str, text: str) -> str:
        """Returns the certain text of ids that have brought no whole character for a long time, as
        ids of broken bytes or without text do: all but that of the last ids, of which a character
        may still become. So each id is decoded a bounded number of times."""
        if len(self._ids) - self._read < MOST_PENDING:
            return ""
        for end in range(len(self._ids) - 1, len(self._ids) - 1 - LONGEST, -1):
            certain = self.tokenizer.decode(self._ids[self._before : end])
            if certain + self.tokenizer.decode(self._ids[end:]) == text:
                break
        if certain == known:
            # Without text of their own they only stand between the ids before and after them.
            del self._ids[self._read : end]
            return ""
        self._before, self._read = self._read, end
        return self._cut(certain[len(known) :])

    def end(self) -> str:
        """Returns the rest of the text at the end of an answer: a half character, and text that
        could have become a stop string."""
        if self.stopped_by is not None:
            return ""
        known = self.tokenizer.decode(self._ids[self._before : self._read])
        text = self.tokenizer.decode(self._ids[self._before :])[len(known) :]
        self._before = self._read = len(self._ids)
        said = self._cut(text)
        held, self._held = self._held, ""
        return said if self.stopped_by is not None else said + held

    def _cut(self, text: str) -> str:
        """Adds `text` to the held text, and returns the part that is certain. Holds an end that may
        begin a stop string; at a whole stop string, sets `stopped_by` and drops the rest."""
        text = self._held + text
        found = [(text.find(stop), stop) for stop in self.stop if stop in text]
        if found:
            place, self.stopped_by = min(found)
            self._held = ""
            return text[:place]
        held = max((_overlap(text, stop) for stop in self.stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _overlap(text: str, stop: str) -> int:
    """Returns the length of the longest end of `text` that is the beginning of `stop`, and not all
    of it."""
    return next(
        (n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop[:n] == text[-n:]), 0
    )
