"""Writes generated parts of pages and notebooks, between `<!-- NAME: begin -->` and
`<!-- NAME: end -->`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GeneratedPart:
    page: Path
    name: str
    text: str
    may_be_old: bool = False
    """True if time makes the part out of date without a mistake: `--check` does not complain about
    it."""

    def is_current(self) -> bool:
        return self.page.read_text(encoding="utf-8") == self._page_with_it()

    def write(self) -> None:
        self.page.write_text(self._page_with_it(), encoding="utf-8")

    def _page_with_it(self) -> str:
        page = self.page.read_text(encoding="utf-8")
        if self.page.suffix != ".ipynb":
            return self._with_it(page)
        notebook = json.loads(page)
        texts = ["".join(cell["source"]) for cell in notebook["cells"]]
        at = next((at for at, text in enumerate(texts) if self._begin in text), 0)
        notebook["cells"][at]["source"] = self._with_it(texts[at]).splitlines(keepends=True)
        return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"

    def _with_it(self, page: str) -> str:
        begin, end = self._begin, f"<!-- {self.name}: end -->"
        before, has_begin, rest = page.partition(begin)
        _, has_end, after = rest.partition(end)
        if not (has_begin and has_end):
            sys.exit(f"{self.page} has no place for {self.name!r}: write {begin} and {end} there")
        return f"{before}{begin}\n{self.text}\n{end}{after}"

    @property
    def _begin(self) -> str:
        return f"<!-- {self.name}: begin -->"


def only_check(description: str | None) -> bool:
    """Reads the script's arguments, and returns True if it was called with `--check`. `description`
    is the text of `--help`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing, name what is stale")
    return parser.parse_args().check


def write_or_check(parts: Iterable[GeneratedPart], checking: bool) -> int:
    """Writes the parts that are not current, and returns the exit status 0. With `checking` it
    writes nothing, names the parts that are not current, and returns 1 if there are any."""
    stale = [part for part in parts if not (part.is_current() or (checking and part.may_be_old))]
    if not checking:
        for part in stale:
            part.write()
        return 0
    for part in stale:
        print(f"{part.page}: {part.name!r} is not current: run {sys.argv[0]}", file=sys.stderr)
    return int(bool(stale))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
