"""Each page of the whole site in Chromium, at three widths, light and dark, and its size. A run
that isn't deep measures the size of one chapter; test_book visits the other kinds of pages."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import pytest

from tests.browser.axe import violations
from tests.browser.chromium import need

from .test_site import files_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
MOST_BYTES = 1_000_000
"""The most gzipped bytes of a page and all that it loads, with the index of the search."""
WIDTHS = 1400, 900, 400
SCHEMES = "light", "dark"
SHARES = 16
"""The shares of the pages that are visited one by one."""
CHAPTER = ROOT / "tests/chapters/01_pinned_h2d.ipynb"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns the folder of the site with all pages, including the real chapters."""
    need("nbconvert")
    from scripts.site.__main__ import build

    folder = tmp_path_factory.mktemp("whole_site")
    build(folder)
    return folder


@pytest.fixture(scope="module")
def chapter(written):
    """Returns the path of a page of a real chapter, in a site of its own."""
    from scripts.site import chapters

    return written([chapters.page_of(CHAPTER)]) / f"{CHAPTER.stem}.html"


def test_a_chapter_is_not_large(chapter):
    assert sent(chapter, chapter.parent) <= MOST_BYTES


@pytest.mark.deep
@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_wrong_in_a_chapter(browser, chapter, scheme):
    assert defects(browser, chapter, scheme) == []


@pytest.mark.deep
def test_no_page_and_what_it_loads_is_large(site):
    pages = {path: sent(path, site) for path in site.rglob("*.html")}
    chapters = {path.stem for path in (ROOT / "tests/chapters").glob("*.ipynb")}
    assert chapters < {path.stem for path in pages}
    assert {path.name: size for path, size in pages.items() if size > MOST_BYTES} == {}


def sent(page: Path, site: Path) -> int:
    """Returns the gzipped bytes of a page, of the files that it loads, and of the search index."""
    files = [*files_of(page), site / "static/search.js"]
    return sum(gzipped(path) for path in files)


@cache
def gzipped(path: Path) -> int:
    return len(gzip.compress(path.read_bytes()))


@pytest.mark.deep
@pytest.mark.parametrize("share", range(SHARES))
def test_nothing_is_wrong_on_any_page(browser, site, share):
    found = []
    for page in sorted(site.rglob("*.html"))[share::SHARES]:
        for scheme in SCHEMES:
            found += [f"{page.name}, {scheme}: {words}" for words in defects(browser, page, scheme)]
    assert found == []


def defects(browser, path: Path, scheme: str) -> list[str]:
    """Returns what a page logs, what it loads from elsewhere, the widths at which it overflows, and
    the rules of axe-core that it breaks, with all parts open and all views alive."""
    context = browser.new_context(color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(60_000)
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text))
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "request", lambda r: r.url.startswith(("file:", "data:", "blob:")) or found.append(r.url)
    )
    page.goto(path.as_uri())
    page.evaluate(OPEN_ALL)
    for figure in page.locator(".live").all():
        figure.scroll_into_view_if_needed()
        figure.locator("xpath=self::*[contains(@class, 'awake')]").wait_for()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(50)
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        found += [f"{over} pixels wider than {width}"] if over > 0 else []
        found += [f"at {width}: {words}" for words in violations(page)]
    context.close()
    return found


OPEN_ALL = """() => {
  for (const box of document.querySelectorAll("main details")) box.open = true;
  for (const box of document.querySelectorAll(".behind")) box.classList.add("open");
}"""


def test_a_picture_with_fewer_colours_looks_the_same():
    from base64 import b64decode, b64encode
    from io import BytesIO

    from matplotlib.image import imread

    from debubble.views.timeline.picture import draw_png
    from scripts.site.pictures import smaller
    from tests.timeline.recordings import transformer_step

    before = draw_png(transformer_step(4))
    after = b64decode(smaller(b64encode(before).decode()))
    assert len(after) < len(before) / 2
    first, second = (imread(BytesIO(png))[..., :3] for png in (before, after))
    assert first.shape == second.shape
    assert abs(first - second).mean() < 0.01
