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
SHADES = {"−": "#fbe3e0", "+": "#dff2e3"}
STYLE = "white-space: pre; font-family: monospace; text-align: left; vertical-align: top; "


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
        heads = "".join(
            f'<th scope="col" style="text-align: left">{escape(name)}</th>' for name in self.names
        )
        gap = f'<tr><td colspan="2" style="{STYLE}">…</td></tr>'
        bodies = gap.join("".join(map(html_row, part)) for part in self.parts)
        return (
            f'<div style="overflow-x: auto" tabindex="0" role="group" '
            f'aria-label="{escape(self.title)}">'
            f'<table style="color: #1f2933; background: #fff">'
            f'<caption style="text-align: left">{escape(self.title)}</caption>'
            f"<thead><tr>{heads}</tr></thead><tbody>{bodies}</tbody></table></div>"
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


def html_row(row: CodeRow) -> str:
    cells = []
    for mark, line in zip(MARKS[row.kind], (row.before, row.after), strict=True):
        shade = f"background: {SHADES[mark]}" if mark and line is not None else ""
        words = "" if line is None else f"{mark or ' '} {line}"
        cells.append(f'<td style="{STYLE}{shade}">{escape(words)}</td>')
    return f"<tr>{''.join(cells)}</tr>"
