"""Merges two edited versions of a text, given the text that both were made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

Lines = Sequence[str]


@dataclass(frozen=True)
class Both:
    """Lines that both versions changed differently: only their author can choose."""

    theirs: Lines
    ours: Lines


def merge(base: str, theirs: str, ours: str) -> list[Lines | Both]:
    """Merges two versions, `theirs` and `ours`, of the text `base`, and returns the parts of the
    result in order. Lines that only one version changed are taken from it; a part is a Both where
    the versions conflict."""
    old, one, other = (text.splitlines(keepends=True) for text in (base, theirs, ours))
    parts: list[Lines | Both] = []
    at = at_one = at_other = 0
    for start, end, start_one, start_other in _in_all(old, one, other):
        was, now, new = old[at:start], one[at_one:start_one], other[at_other:start_other]
        if now == new or new == was:
            parts.append(now)
        else:
            parts.append(new if now == was else Both(now, new))
        parts.append(old[start:end])
        length = end - start
        at, at_one, at_other = end, start_one + length, start_other + length
    return [part for part in parts if part]


def in_common(one: str, other: str) -> str:
    """Returns the lines that two versions of a text share. They stand in for the text that both
    were made from if it was not stored."""
    lines = one.splitlines(keepends=True), other.splitlines(keepends=True)
    blocks = SequenceMatcher(None, *lines, autojunk=False).get_matching_blocks()
    return "".join(line for at, _, length in blocks for line in lines[0][at : at + length])


def _in_all(old: Lines, one: Lines, other: Lines) -> Iterator[tuple[int, int, int, int]]:
    """Yields the runs of lines that all three have: start and end in `old`, start in `one`, start
    in `other`. The last run is the empty one at the end."""
    blocks, others = (
        SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        for new in (one, other)
    )
    i = j = 0
    while i < len(blocks) and j < len(others):
        (at, at_one, length), (at2, at_other, length2) = blocks[i], others[j]
        start, end = max(at, at2), min(at + length, at2 + length2)
        if start < end:
            yield start, end, at_one + start - at, at_other + start - at2
        if at + length < at2 + length2:
            i += 1
        else:
            j += 1
    yield len(old), len(old), len(one), len(other)
