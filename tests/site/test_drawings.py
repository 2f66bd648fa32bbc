"""The site's drawings, in JavaScript, have the marks of Python's, for all sliders together."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.deep import all_run

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2]
SETTINGS = {"deep": 150, "sample": 25}
"""The number of settings of all sliders that are drawn at random for each drawing."""
LENGTHS = [0, 1, 15, 16, 17, 63, 64, 65, *range(0, 201, 10)]


def chunks(chunk_size: int, **lengths: int):
    from solutions.gdn.pictures.chunk_picture import ChunkPicture

    return ChunkPicture(list(lengths.values()), chunk_size)


def pages(request_0: int, request_1: int, new: int, window: int, order: int):
    from solutions.flex_graph.mask import CAUSAL, sliding_window
    from solutions.flex_graph.pictures.pages_picture import PagesPicture

    mask = sliding_window(window) if window else CAUSAL
    new = min(new, request_1)
    return PagesPicture([request_0, request_1, 24], [min(1, request_0), new, 1], order, mask)


DRAWINGS = {
    "chunk_picture": (
        chunks,
        {"chunk_size": [16, 32, 64, 128], **{f"sequence_{n}": LENGTHS for n in range(3)}},
    ),
    "pages_picture": (
        pages,
        {
            "request_0": [0, 1, 16, 17, *range(0, 81, 10)],
            "request_1": [0, 1, 16, 17, *range(0, 81, 10)],
            "new": [0, 1, 2, 4, 8, 16, 20, 32],
            "window": [0, 1, 8, 16, 17, 32, 64],
            "order": range(6),
        },
    ),
}


@pytest.fixture(scope="module")
def draw(browser):
    """Returns draw(name, settings): the width, height, words, marks and elements of a drawing."""
    from scripts.site.files import live_parts

    page = browser.new_page()
    page.add_script_tag(content=live_parts())
    yield lambda name, settings: page.evaluate(DRAWN, [name, settings])
    page.close()


DRAWN = """([name, settings]) => {
  const sheet = DRAWINGS[name].draw(settings);
  const read = new DOMParser().parseFromString(sheet.svg, "image/svg+xml");
  const isBroken = read.querySelectorAll("parsererror").length > 0;
  return { ...sheet, elements: isBroken ? 0 : read.documentElement.children.length };
}"""


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_browser_draws_what_python_draws(draw, name, pytestconfig):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    number = SETTINGS["deep" if all_run(pytestconfig) else "sample"]
    for settings in drawn_by(random.Random(seed), name, number):
        picture = DRAWINGS[name][0](**settings)
        sheet, page = picture.sheet, draw(name, settings)
        assert page["words"] == picture.text, settings
        assert len(page["marks"]) == len(sheet.marks), settings
        for own, theirs in zip(page["marks"], sheet.marks, strict=True):
            assert len(own) == len(theirs) and all(map(is_near, own, theirs)), (settings, own)
        assert page["elements"] > len(sheet.marks), settings


def drawn_by(draw: random.Random, name: str, number: int) -> list[dict[str, int]]:
    sliders = DRAWINGS[name][1]
    return [
        {slider: draw.choice(list(values)) for slider, values in sliders.items()}
        for _ in range(number)
    ]


def is_near(own: str | bool | float, theirs: str | bool | float) -> bool:
    """Returns True if both are the same word, or numbers that differ by rounding only."""
    if isinstance(theirs, (str, bool)) or isinstance(own, str):
        return own == theirs
    return abs(own - theirs) < 1e-6


def test_sliders_move_together_and_the_address_holds_them(browser, tmp_path):
    from scripts.site import chapters
    from scripts.site.files import write_static
    from scripts.site.page import write_all

    write_static(tmp_path)
    write_all([chapters.page_of(chapters.folder_of(ROOT) / "03_gdn.ipynb")], tmp_path)
    page = browser.new_page()
    page.goto((tmp_path / "03_gdn.html").as_uri())
    page.get_by_role("button", name="Open everything").click()
    figure = page.locator(".live[data-view=drawing]")
    figure.scroll_into_view_if_needed()
    page.locator(".live[data-view=drawing].awake").wait_for()
    size, first, *_ = figure.get_by_role("slider").all()
    size.press("Home")
    first.press("End")
    image = figure.locator("div:not(.still) > img")
    words = "370 tokens in 3 sequences, chunks of 16: 25 programs"
    assert image.get_attribute("alt").startswith(words)
    page.wait_for_function("location.hash.endsWith('=16,200,40,130')")
    other = browser.new_page()
    other.goto(page.url)
    other.locator(f"img[alt^='{words}']").wait_for()


def test_each_drawing_with_several_sliders_has_a_script():
    import nbformat

    from scripts.site import chapters
    from scripts.site.files import scripts

    known = {path.stem for path in scripts()}
    found = [
        header
        for path in chapters.folder_of(ROOT).glob("*.ipynb")
        for header in headers(nbformat.read(path, as_version=4))
    ]
    several = [header for header in found if len(header["sliders"]) > 1]
    assert len(several) == 2
    assert {header.get("script") for header in several} == known


def headers(notebook) -> list[dict]:
    """Returns the header of each drawing that a chapter stores."""
    import json
    import zlib
    from base64 import b64decode

    from debubble.views.embedding import MIME

    views = [
        output.data[MIME]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {})
    ]
    whole = [zlib.decompress(b64decode(v["data"])) for v in views if v["view"] == "drawing"]
    return [json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")]) for data in whole]
