"""Builds the site: python -m scripts.site FOLDER"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from . import chapters, docs, front, katas, reference
from .files import write_static
from .page import write_all

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
    others = [*docs.pages(root), *reference.pages()]
    first = [front.page(root, of_chapters), katas.index(root, of_chapters)]
    pages = [*first, *of_chapters, *of_katas, *others]
    write_static(folder)
    write_all(pages, folder)
    return len(pages)


if __name__ == "__main__":
    main()
