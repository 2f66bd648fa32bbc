"""Shows two versions of some code side by side, with the differences marked, not by colour
alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

CONTEXT = 2
"""Lines shown around a change."""
MARKS = {"replace": ("−", "+"), "delete": ("−", ""), "insert": ("", "+"), "equal": ("", "")}
SHADES = {"−": "rgba(207, 34, 46, .18)", "+": "rgba(26, 127, 55, .2)"}
"""Backgrounds that let the page's own background through, so that they fit a light and a dark
theme."""
BLOCK = "margin: 0 0 .75em; min-width: 0; font-family: monospace; text-align: left; "
LINE = "white-space: pre-wrap; overflow-wrap: anywhere; min-height: 1.2em; "
"""A line that is wider than the page continues in the next row: nothing is cut off."""


class CodeRow(NamedTuple):
    """A row of two versions side by side: the line of each, None where a version has no such line.
    `kind` is difflib's: "equal", "replace", "delete" or "insert"."""

    kind: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class SideBySide:
    """Two versions of code: `title` names the code, `names` the origin of each version."""

    title: str
    before: str
    after: str
    names: tuple[str, str] = ("before", "after")

    @property
    def parts(self) -> list[list[CodeRow]]:
        """The changes in order, each with a few lines around it."""
        before, after = self.before.splitlines(), self.after.splitlines()
        matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
        return [
            [row for code in group for row in rows_of(code, before, after)]
            for group in matcher.get_grouped_opcodes(CONTEXT)
        ]

    def __repr__(self) -> str:
        """Returns the differences as a text diff, for readers without a page."""
        lines = [self.title]
        for part in self.parts:
            lines.append("…")
            for kind, before, after in part:
                if kind == "equal":
                    lines.append(f"  {before}")
                    continue
                lines += [f"- {before}"] if before is not None else []
                lines += [f"+ {after}"] if after is not None else []
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        """Returns each change as two blocks. They are side by side if there is room for their
        longest lines, and below one another otherwise."""
        parts = "".join(part_html(part, self.names) for part in self.parts)
        return (
            f'<div role="group" aria-label="{escape(self.title)}" style="color: inherit">'
            f"<p>{escape(self.title)}</p>{parts}</div>"
        )


def rows_of(
    code: tuple[str, int, int, int, int], before: Sequence[str], after: Sequence[str]
) -> Iterator[CodeRow]:
    kind, first, last, from_, to = code
    old, new = before[first:last], after[from_:to]
    for number in range(max(len(old), len(new))):
        yield CodeRow(
            kind,
            old[number] if number < len(old) else None,
            new[number] if number < len(new) else None,
        )


def part_html(part: Sequence[CodeRow], names: tuple[str, str]) -> str:
    longest = max(len(line or "") for row in part for line in row[1:])
    blocks = []
    for side, name in enumerate(names):
        lines = "".join(html_line(row, side) for row in part if row[1 + side] is not None)
        blocks.append(
            f'<div role="group" aria-label="{escape(name)}" '
            f'style="{BLOCK}flex: 1 1 {longest + 3}ch"><em>{escape(name)}</em>{lines}</div>'
        )
    return f'<div style="display: flex; flex-wrap: wrap; gap: 0 1em">{"".join(blocks)}</div>'


def html_line(row: CodeRow, side: int) -> str:
    """Returns a line of the version `side`, 0 for before and 1 for after."""
    mark, line = MARKS[row.kind][side], row[1 + side]
    shade = f"background: {SHADES[mark]}" if mark else ""
    words = escape(f"{mark or ' '} {line}")
    return f'<div style="{LINE}{shade}">{words}</div>'
