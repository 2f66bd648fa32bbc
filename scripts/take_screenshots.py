"""Takes a picture of each kind of view in both themes: python -m scripts.take_screenshots SITE

SITE is the folder of the built site. The pictures replace those in assets/screenshots, or in a
second folder that is given.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTH, HEIGHT = 900, 1000
"""The window's size in CSS pixels."""
WAIT_MS = 800
"""Milliseconds from the moment at which a view is near until it is drawn."""


class Kind(NamedTuple):
    """A kind of view: the page and the selector of an example, and the keys that are pressed in
    it."""

    page: str
    selector: str
    keys: tuple[str, ...] = ()


KINDS = {
    "timeline": Kind("00_reading_a_timeline.html", ".live[data-view=timeline]"),
    "timeline_before_above": Kind("01_pinned_h2d.html", ".live[data-view=timeline] >> nth=1"),
    "timeline_steps": Kind("06_engine.html", ".live[data-view=timeline] >> nth=1"),
    "timeline_step_through": Kind(
        "00_reading_a_timeline.html", ".live[data-view=timeline]", ("ArrowRight",) * 5
    ),
    "explorer": Kind("01_pinned_h2d.html", ".live[data-view=explorer]"),
    "dashboard": Kind("06_engine.html", ".live[data-view=dashboard]"),
    "question": Kind(
        "00_reading_a_timeline.html", ".live[data-view=question]", ("ArrowRight",) * 20
    ),
    "drawing": Kind("00_reading_a_timeline.html", ".live[data-view=drawing]"),
    "diff": Kind("02_sync_free.html", ".output:has([role=group] em)"),
    "race": Kind("index.html", "main"),
}


def take(browser: Browser, site: Path, folder: Path) -> int:
    """Takes all pictures and returns their number."""
    for theme in THEMES:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)
        page.set_default_timeout(30_000)
        for name, kind in KINDS.items():
            shown(page, site, kind).screenshot(path=folder / f"{name}_{theme}.png")
        page.close()
    return len(THEMES) * len(KINDS)


def shown(page: Page, site: Path, kind: Kind) -> Locator:
    """Opens a kind's page and everything that it keeps back, and returns the view, awake."""
    page.goto((site / kind.page).as_uri())
    page.evaluate(OPEN)
    view = page.locator(kind.selector).first
    view.evaluate("(node) => node.scrollIntoView()")
    page.wait_for_timeout(WAIT_MS)
    for key in kind.keys:
        view.locator("canvas").press(key)
    page.wait_for_timeout(WAIT_MS)
    return view


OPEN = """() => {
  document.querySelectorAll(".behind").forEach((box) => box.classList.add("open"));
  document.querySelectorAll("details").forEach((box) => (box.open = true));
}"""
"""JavaScript that opens what a page keeps back or folds."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.take_screenshots", description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "assets/screenshots")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        print(f"{take(browser, given.site, given.folder)} pictures in {given.folder}")
        browser.close()


if __name__ == "__main__":
    main()
