"""Builds the site: python -m scripts.site FOLDER"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path

from . import chapters, docs, front, katas, reference
from .files import write_archive, write_static
from .page import Site, write_all

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.site", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "build/site")
    parser.add_argument("--repository", default="", help="links to files lead to this address")
    parser.add_argument("--address", default="", help="where the site will be found")
    given = parser.parse_args()
    folder = given.folder
    shutil.rmtree(folder, ignore_errors=True)
    address = f"{given.address.rstrip('/')}/" if given.address else ""
    written = build(folder, site=Site(given.repository.rstrip("/"), address))
    if still := sum(map(chapters.stills, chapters.pages(ROOT))):
        print(f"{still} views are not live: make store-chapters stores the data that they need")
    print(f"{written} pages in {folder}: open {folder / 'index.html'}")


def build(folder: Path, root: Path = ROOT, site: Site | None = None) -> int:
    """Writes the whole site and returns the number of its pages."""
    of_chapters = chapters.pages(root)
    of_katas = katas.pages(root)
    guides = docs.pages(root)
    pages = [front.page(root, of_chapters), *of_chapters, *guides]
    pages += [katas.index(root, of_chapters), *of_katas, *reference.pages()]
    write_static(folder)
    site = site or Site()
    if not site.repository:
        site = replace(site, archive=write_archive(folder, root))
    write_all(pages, folder, site)
    return len(pages)


if __name__ == "__main__":
    main()
