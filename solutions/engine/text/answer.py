"""An answer's text while its tokens come: no half character, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

HALF = "\ufffd"
"""What a tokenizer gives for bytes that are no character yet."""


class DecodesIds(Protocol):
    def decode(self, ids: Sequence[int]) -> str: ...


class AnswerText:
    """Give it the ids as they are known; it gives back what can be said, each part once."""

    def __init__(self, tokenizer: DecodesIds, stop: Sequence[str] = ()) -> None:
        self.tokenizer, self.stop = tokenizer, tuple(stop)
        self.stopped_by: str | None = None
        self._ids: list[int] = []
        self._before, self._read = 0, 0
        """Ids from `_before` on are decoded anew with each part: how a token looks depends on those
        in front of it. The text of those up to `_read` is known."""
        self._held = ""

    def add(self, ids: Sequence[int]) -> str:
        """The text that these ids add, as far as it is certain."""
        if self.stopped_by is not None:
            return ""
        self._ids += ids
        known = self.tokenizer.decode(self._ids[self._before : self._read])
        text = self.tokenizer.decode(self._ids[self._before :])
        if len(text) <= len(known) or text.endswith(HALF):
            return ""
        self._before, self._read = self._read, len(self._ids)
        return self._cut(text[len(known) :])

    def end(self) -> str:
        """What is left at the end of an answer: a half character, and what could have become a stop
        string."""
        if self.stopped_by is not None:
            return ""
        known = self.tokenizer.decode(self._ids[self._before : self._read])
        text = self.tokenizer.decode(self._ids[self._before :])[len(known) :]
        self._before = self._read = len(self._ids)
        said = self._cut(text)
        held, self._held = self._held, ""
        return said if self.stopped_by is not None else said + held

    def _cut(self, text: str) -> str:
        """What may be said of the text that is held back and this."""
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
    """How many of the text's last characters are the first of `stop`."""
    return next(
        (n for n in range(min(len(text), len(stop) - 1), 0, -1) if stop[:n] == text[-n:]), 0
    )
