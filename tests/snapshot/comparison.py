"""Compares snapshots: one sentence for each change. Additions are no change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST = 20
"""The most sentences that `complaint` shows."""


def changes(was: Mapping[str, Any], now: Mapping[str, Any], *where: str) -> Iterator[str]:
    """Yields a sentence for each entry of `was` that vanished or differs in `now`; both are nested
    mappings. `where` is the path to them."""
    for name, value in was.items():
        place = (*where, name)
        if name not in now:
            yield f"{', '.join(place)} vanished"
        elif isinstance(value, dict) and isinstance(now[name], dict):
            yield from changes(value, now[name], *place)
        elif value != now[name]:
            yield f"{', '.join(place)} was {value!r} and is {now[name]!r}"


def complaint(sentences: list[str], advice: str) -> str:
    """Returns a text with the first MOST sentences, the advice, and how to take the snapshot
    again."""
    more = [f"... and {len(sentences) - MOST} more"] if len(sentences) > MOST else []
    again = (
        "Where the change is meant, `python -m tests.snapshot` takes the snapshot again, "
        "and the commit says why."
    )
    return "\n".join([*sentences[:MOST], *more, advice, again])
