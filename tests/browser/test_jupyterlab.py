"""Chapters as a learner sees them: JupyterLab in a real Chromium without a network."""

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from .chromium import chromium, need

pytestmark = [pytest.mark.browser, pytest.mark.deep, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
CHAPTERS = [
    "01_pinned_h2d",
    *(
        pytest.param(chapter, marks=pytest.mark.deep)
        for chapter in (
            "02_sync_free",
            "03_gdn",
            "04_flex_graph",
            "05_offload",
            "06_engine",
            "07_host_bound",
        )
    ),
]
"""The chapters that have a slider over recordings. `make test` runs only the first of them."""
SLIDER = ".debubble-slider input"
TIMELINE = ".debubble-timeline canvas"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapter_runs_and_its_timeline_follows_the_slider(
    lab, browser_page, screenshots, chapter
):
    from .jupyterlab import OpenNotebook

    page, watch = browser_page
    page.goto(lab.url(f"{chapter}.ipynb"))
    notebook = OpenNotebook(page)
    notebook.wait_for_kernel()
    page.screenshot(path=screenshots / f"{chapter}_opened.png")

    notebook.run_all_cells(seconds=120)
    assert notebook.errors() == []

    notebook.unfold()
    cell = notebook.cell_with(SLIDER, TIMELINE)
    timeline = cell.locator(TIMELINE).first
    timeline.scroll_into_view_if_needed()
    settled_picture(page, timeline)
    expect_whole_tooltips(page, timeline)
    before = settled_picture(page, timeline)
    page.screenshot(path=screenshots / f"{chapter}_before_the_slider.png")

    drag_to_the_other_end(page, cell.locator(SLIDER).first)
    wait_for_another_picture(page, timeline, before)
    page.screenshot(path=screenshots / f"{chapter}_after_the_slider.png")

    assert watch.outside_requests == []
    assert watch.console_errors == []


@pytest.fixture
def lab(tmp_path):
    """Returns a JupyterLab on a copy of the chapters, so that running them changes nothing here."""
    need("jupyterlab", "playwright")
    from .jupyterlab import jupyterlab

    chapters = tmp_path / "chapters"
    shutil.copytree(ROOT / "chapters", chapters)
    home = tmp_path / "home"
    home.mkdir()
    with jupyterlab(chapters, home) as server:
        yield server


@pytest.fixture
def browser_page():
    """Returns (a browser page, a Watch that notes its requests to other machines and its
    errors)."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        yield page, Watch(page)


@pytest.fixture
def screenshots(tmp_path):
    """Returns the folder of screenshots. DEBUBBLE_SCREENSHOTS=assets/screenshots keeps them; by
    default they are temporary."""
    folder = Path(os.environ.get("DEBUBBLE_SCREENSHOTS", tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Watch:
    def __init__(self, page):
        self.outside_requests: list[str] = []
        self.console_errors: list[str] = []
        page.route("**/*", self.let_through_or_block)
        page.on("websocket", lambda socket: self.is_inside(socket.url))
        page.on("pageerror", lambda error: self.console_errors.append(str(error)))
        page.on("console", self.keep_errors)

    def let_through_or_block(self, route) -> None:
        if self.is_inside(route.request.url):
            route.continue_()
        else:
            route.abort()

    def is_inside(self, url: str) -> bool:
        """Returns True if the address `url` is on this machine; otherwise adds it to
        `outside_requests` and returns False."""
        parts = urlsplit(url)
        inside = parts.scheme in ("data", "blob") or parts.hostname == "127.0.0.1"
        if not inside:
            self.outside_requests.append(url)
        return inside

    def keep_errors(self, message) -> None:
        if message.type == "error":
            self.console_errors.append(f"{message.text} ({message.location.get('url')})")


def drag_to_the_other_end(page, slider) -> None:
    """Drags the slider's handle with the mouse to the end of its track that is further away."""
    box = slider.bounding_box()
    assert box["width"] >= 180, "a track that is wide enough to be aimed at"
    place = slider.evaluate("slider => slider.value / slider.max")
    handle = 16  # pixels; its middle stays half of that away from the ends
    start = box["x"] + handle / 2 + place * (box["width"] - handle)
    end = box["x"] + (box["width"] - 2 if place <= 0.5 else 2)
    height = box["y"] + box["height"] / 2
    page.mouse.move(start, height)
    page.mouse.down()
    page.mouse.move(end, height, steps=8)
    page.mouse.up()


def expect_whole_tooltips(page, canvas) -> None:
    """Hovers over places of the canvas, and checks that each tooltip there lies inside the window
    and is not cut off."""
    box = canvas.bounding_box()
    told = 0
    for x in (0.15, 0.4, 0.65, 0.97):
        for y in (40, box["height"] / 2, box["height"] - 30):
            canvas.hover(position={"x": x * box["width"], "y": y})
            page.wait_for_timeout(200)
            tip = page.locator(".debubble-timeline .tip:popover-open")
            if not tip.count():
                continue
            told += 1
            place = tip.bounding_box()
            assert place["x"] >= 0 and place["x"] + place["width"] <= page.viewport_size["width"]
            assert place["y"] >= 0 and place["y"] + place["height"] <= page.viewport_size["height"]
            assert tip.evaluate("(tip) => tip.scrollHeight <= tip.clientHeight"), tip.inner_text()
            clipped = "(tip) => tip.scrollWidth > tip.clientWidth"
            assert not tip.evaluate(clipped), tip.inner_text()
    assert told >= 4
    page.mouse.move(0, 0)


def settled_picture(page, canvas) -> str:
    """Returns the canvas's picture, as a data URL, once it is the same twice, half a second
    apart."""
    last, latest = None, picture(canvas)
    while latest != last:
        page.wait_for_timeout(500)
        last, latest = latest, picture(canvas)
    return latest


def picture(canvas) -> str:
    return canvas.evaluate("canvas => canvas.toDataURL()")


def wait_for_another_picture(page, canvas, before: str) -> None:
    page.wait_for_function(
        "([canvas, before]) => canvas.toDataURL() !== before",
        arg=[canvas.element_handle(), before],
        timeout=60_000,
    )
