"""The pages: linked files exist, and statements about the licence and the pictures are true."""

import json
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *("*.md", "docs/*.md", "katas/*.md", "debubble/**/*.md"),
    *("solutions/*/README.md", "workshop/**/*.md"),
)
PAGES = [page for pattern in FOLDERS for page in sorted(ROOT.glob(pattern))]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    for path, anchor in LINK.findall(page.read_text()):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path} is linked and does not exist"
        assert not anchor or anchor in anchors(target), f"{path} has no heading #{anchor}"


def anchors(page: Path) -> set[str]:
    """Returns the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_links_every_other_page():
    linked = {path for path, _ in LINK.findall((ROOT / "README.md").read_text())}
    pages = {page.relative_to(ROOT).as_posix() for page in PAGES}
    assert pages - linked == {"README.md"}


def test_the_readme_has_one_picture():
    assert len(re.findall(r"!\[", (ROOT / "README.md").read_text())) == 1


def test_every_picture_is_explained_once():
    shown = re.findall(r"!\[.+\]\(\.\./(.+)\)", (ROOT / "docs/pictures.md").read_text())
    stored = (ROOT / "assets/pictures").glob("*.png")
    assert sorted(shown) == sorted(path.relative_to(ROOT).as_posix() for path in stored)


def test_a_picture_has_the_name_of_its_chapter():
    notebooks = (ROOT / "chapters").glob("*.ipynb")
    first_cells = [json.loads(path.read_text())["cells"][0]["source"] for path in notebooks]
    titles = {"".join(source).splitlines()[0].removeprefix("# ") for source in first_cells}
    page = (ROOT / "docs/pictures.md").read_text()
    assert set(re.findall(r"^## (.+)$", page, re.MULTILINE)) <= titles


def test_the_licence_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0"
    assert "[Apache-2.0](LICENSE)" in (ROOT / "README.md").read_text()
    licence = " ".join((ROOT / "LICENSE").read_text().split())
    assert licence.startswith("Apache License Version 2.0")
