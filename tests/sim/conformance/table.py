"""Tables of failed checks: of a run, and in README.md, which lists the known ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .running import Finding

README = Path(__file__).with_name("README.md")


class Row(NamedTuple):
    operator: str
    check: str
    outcome: str
    types: str
    """The dtypes with this outcome, separated by commas."""
    why: str
    """The error message for one of the dtypes."""


def table_of(findings: Iterable[Finding]) -> list[Row]:
    together: defaultdict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for name, dtype, check, outcome, why in findings:
        if outcome != "right":
            together[name, check, outcome][dtype] = why
    return [
        Row(*what, ", ".join(sorted(types)), next(iter(types.values())))
        for what, types in sorted(together.items())
    ]


def unknown(findings: Iterable[Finding]) -> list[Finding]:
    """Returns the failed checks that the table of README.md does not list."""
    lines = (line for line in README.read_text().splitlines() if line.startswith("| "))
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    kept = [Row(*row) for row in cells if len(row) == len(Row._fields)]
    known = {(*row[:3], dtype) for row in kept for dtype in row.types.split(", ")}
    wrong = (finding for finding in findings if finding.outcome != "right")
    return [f for f in wrong if (f.operator, f.kind, f.outcome, f.dtype) not in known]


def as_markdown(table: Iterable[Row]) -> str:
    rows = [(*row[:4], row.why.replace("|", "/")[:100]) for row in table]
    return "\n".join("| " + " | ".join(row) + " |" for row in (Row._fields, ("---",) * 5, *rows))
