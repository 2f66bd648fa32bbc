"""Builds the site: python -m scripts.site FOLDER"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from . import chapters, glossary, katas, reference
from .files import write_static
from .page import Page, write_all

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.site", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "build/site")
    folder = parser.parse_args().folder
    shutil.rmtree(folder, ignore_errors=True)
    written = build(folder)
    if still := sum(map(chapters.stills, chapters.pages(ROOT))):
        print(f"{still} views are not live: make store-chapters stores the data that they need")
    print(f"{written} pages in {folder}: open {folder / 'index.html'}")


def build(folder: Path, root: Path = ROOT) -> int:
    """Writes the whole site and returns the number of its pages."""
    of_chapters = chapters.pages(root)
    of_katas = katas.pages(root)
    others = [*glossary.pages(root), *reference.pages()]
    pages = [index(root, of_chapters, others), *of_chapters, *of_katas, *others]
    write_static(folder)
    write_all(pages, folder)
    return len(pages)


def index(root: Path, of_chapters: list[Page], others: list[Page]) -> Page:
    """Returns the site's index page: README.md's first paragraphs, and links to all pages."""
    _, title, story = (root / "README.md").read_text().split("\n## ")[0].partition("# debubble\n")
    paragraphs = [part for part in story.strip().split("\n\n") if part[0] not in "!*`["]
    lines = [f"# {title.strip().removeprefix('# ')}", paragraphs[0], "## Chapters"]
    lines += ["\n".join(f"- [{page.title}]({page.path})" for page in of_chapters), INSTALLED]
    lines += ["## Katas", katas.by_chapter(root, of_chapters)]
    lines += ["## Reference", "\n".join(f"- [{page.title}]({page.path})" for page in others)]
    return Page.of_markdown("index.html", "debubble", "\n\n".join(lines))


INSTALLED = """The pages are live: timelines can be zoomed and searched, sliders move, and a
question waits for your prediction. To run and change the code, clone the repository and run
`make lab`."""


if __name__ == "__main__":
    main()
