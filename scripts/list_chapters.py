"""Writes the lists of chapters and katas: README.md, katas/README.md, docs/workshop.md, and the
chapters' tables of katas.

Their content comes from the first cell of each notebook and from katas/katas.toml. `--check` writes
nothing, and exits with 1 if a list is not current.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from generated_part import GeneratedPart, only_check, table, write_or_check

from debubble.exercises.kata_files.catalogue import Catalogue, Kata

ROOT = Path(__file__).resolve().parents[1]
UPSTREAM = "https://github.com/vllm-project/vllm/pull/"
MORE = "more"
MINUTES_PER_CELL, MINUTES_PER_KATA = 1, 10
"""Minutes of a workshop's day to plan for a cell and for a kata, not measured. A kata may have
minutes of its own in katas.toml."""


def main() -> int:
    checking = only_check(__doc__)
    chapters = [Chapter.read(path) for path in sorted((ROOT / "chapters").glob("*.ipynb"))]
    katas = Catalogue(ROOT).katas
    parts = [
        GeneratedPart(ROOT / "README.md", "chapters", index_of_chapters(chapters, katas)),
        GeneratedPart(ROOT / "katas/README.md", "katas", index_of_katas(chapters, katas)),
        GeneratedPart(ROOT / "docs/workshop.md", "plan", plan(chapters, katas)),
        *tables_of_chapters(chapters, katas),
    ]
    return write_or_check(parts, checking)


@dataclass(frozen=True)
class Chapter:
    file: str
    number: str
    title: str
    headline: str
    cells: int
    """The number of cells on the main path: without the folded ones, which have the tag MORE."""

    @classmethod
    def read(cls, path: Path) -> Chapter:
        """Reads a chapter, whose first cell begins with `# NN · Title`. The headline is the first
        sentence below it that names a pull request, or else the first sentence."""
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        first, _, story = "".join(cells[0]["source"]).partition("\n")
        heading = re.fullmatch(r"# (\d\d) · (.+)", first)
        sentences = re.split(r"(?<=[.!?])\s+", story.strip())
        if not (heading and sentences[0]):
            sys.exit(f"{path} begins with {first!r}: it needs `# NN · Title`, and a story below it")
        named = (sentence for sentence in sentences if "pull request #" in sentence.lower())
        headline = next(named, sentences[0]).replace("**", "")
        main = [cell for cell in cells if MORE not in cell.get("metadata", {}).get("tags", ())]
        return cls(path.name, *heading.groups(), headline, len(main))

    def link(self, to_root: str) -> str:
        return f"[{self.number} · {self.title}]({to_root}chapters/{self.file})"


def index_of_chapters(chapters: list[Chapter], katas: tuple[Kata, ...]) -> str:
    rows = []
    for chapter in chapters:
        exercises = Counter(kata.system for kata in katas if kata.chapter == chapter.number)
        links = [
            f"[{counted(number, 'kata')}](katas/README.md#{system})"
            for system, number in exercises.items()
        ]
        rows.append([chapter.link(""), with_links(chapter.headline), "<br>".join(links)])
    return table(["chapter", "in one line", "exercises"], rows)


def index_of_katas(chapters: list[Chapter], katas: tuple[Kata, ...]) -> str:
    """Returns a section with a table of its katas for each system, in the order of teaching. The
    system's chapter may still be unwritten."""
    links = {chapter.number: chapter.link("../") for chapter in chapters}
    sections = []
    for (system, number), group in groupby(katas, key=lambda kata: (kata.system, kata.chapter)):
        rows = [
            [f"[`{kata.name}`]({system}/{kata.name}.py)", kata.title, kata.effort] for kata in group
        ]
        chapter = links.get(number, number)
        katas_of_it = table(["kata", "title", "effort"], rows)
        sections.append(f"### {system}\nChapter {chapter}\n\n{katas_of_it}")
    return "\n\n".join(sections)


def tables_of_chapters(chapters: list[Chapter], katas: tuple[Kata, ...]) -> Iterator[GeneratedPart]:
    """Yields the table of a chapter's katas, in the reader's notebook and in its reference."""
    for chapter in chapters:
        own = [kata for kata in katas if kata.chapter == chapter.number]
        rows = [[f"`{kata.relative(kata.stub_path)}`", kata.teaches] for kata in own]
        notebooks = [ROOT / folder / chapter.file for folder in ("chapters", "tests/chapters")]
        for notebook in notebooks if own else []:
            yield GeneratedPart(notebook, "katas", table(["kata", "you learn"], rows))


def plan(chapters: list[Chapter], katas: tuple[Kata, ...]) -> str:
    rows = []
    for chapter in chapters:
        own = [kata for kata in katas if kata.chapter == chapter.number]
        minutes = chapter.cells * MINUTES_PER_CELL
        minutes += sum(kata.minutes or MINUTES_PER_KATA for kata in own)
        rows.append([chapter.link("../"), f"{chapter.cells}", f"{len(own)}", f"{minutes / 60:.1f}"])
    hours = f"hours, at {counted(MINUTES_PER_CELL, 'minute')} a cell"
    return table(["chapter", "cells", "katas", hours], rows)


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def with_links(text: str) -> str:
    return re.sub(r"#(\d+)", rf"[#\1]({UPSTREAM}\1)", text)


if __name__ == "__main__":
    sys.exit(main())
