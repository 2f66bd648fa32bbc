"""Tables of figures for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text


def figures_first(
    headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], width: int, figures: int
) -> Table:
    """Returns a table with the first `figures` columns flush right; only the last column is cut in
    a narrow terminal."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    *columns, last = zip(headings, *rows, strict=True)
    for number, column in enumerate(columns):
        table.add_column(column[0], justify="right" if number < figures else "left", no_wrap=True)
    room = width - sum(max(map(len, column)) + 2 for column in columns) - 2
    table.add_column(last[0], no_wrap=True, overflow="ellipsis", max_width=max(room, 10))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
