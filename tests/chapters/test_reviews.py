"""Reviews: what they asked is tried where the chapters and docs/upstream.md say."""

import re
import subprocess

import pytest

from debubble.exercises.kata_files.catalogue import Catalogue

from .notebooks import READERS, ROOT, cells_of

LESSONS = READERS[1:6]
PAGE = ROOT / "docs/upstream.md"
HEADING = "What the review asked"
TRAPS = {"03_gdn": ("When a table is wrong", -1)}
"""The section with a chapter's traps and its place after the review (1) or before it (-1), where
they differ from the other chapters'."""
PULL_REQUESTS = ("38794", "41429", "38361", "36298", "42212", "40137")
DECISIONS = 20
ROW = re.compile(r"^\| (?!asked)(?!-)(.+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)


def review(path):
    prose = "\n".join(cell.source for cell in cells_of(path) if cell.kind == "markdown")
    _, _, below = prose.partition(f". {HEADING}\n")
    return re.split(r"^## ", below, flags=re.MULTILINE)[0]


def rows(text):
    return ROW.findall(text)


PLACES = [*(review(path) for path in LESSONS), PAGE.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lessons_chapter_tells_its_review_beside_what_went_wrong_later(path):
    headings = re.findall(r"^## (?:\d+\. )(.+)$", "\n".join(c.source for c in cells_of(path)), re.M)
    traps, distance = TRAPS.get(path.stem, ("What went wrong later", 1))
    assert headings.index(traps) == headings.index(HEADING) + distance
    assert len(rows(review(path))) >= 4
    assert "**Where this stands.**" in "".join(cell.source for cell in cells_of(path))


def test_the_page_has_each_pull_request_and_at_least_the_decisions_of_the_reviews():
    parts = re.split(r"^## #", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert tuple(part[:5] for part in parts) == PULL_REQUESTS
    assert sum(len(rows(part.partition("\n## ")[0])) for part in parts) >= DECISIONS


@pytest.mark.parametrize("text", PLACES, ids=[*(path.stem for path in LESSONS), "upstream.md"])
def test_each_row_says_what_is_there(text):
    katas = {kata.name.partition("/")[2] or kata.name for kata in Catalogue(ROOT).katas}
    for *_, tried in rows(text):
        for kata in re.findall(r"katas? `(\w+)`", tried):
            assert kata in katas, kata
        for file in re.findall(r"`((?:tests|solutions)/[\w/]+\.py)`", tried):
            assert (ROOT / file).is_file(), file
        for test in re.findall(r"`(test_\w+)`", tried):
            found = subprocess.run(
                ["grep", "-rl", f"def {test}(", str(ROOT / "tests")], capture_output=True
            )
            assert found.stdout, test
