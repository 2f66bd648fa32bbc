"""Contrast of words on the boxes of timelines and drawings, at least 4.5 to 1."""

import base64

import pytest

from debubble.views.timeline.palette import CAUSE_STYLES, EVENT_STYLES
from debubble.views.timeline.widget import SOURCE
from solutions.pictures.sheet import FAINT, GROUND, INK, SEQUENCE_COLOURS, ink_on
from tests.browser.chromium import chromium

LEAST = 4.5
COLOURS = sorted({tone for _, light, dark in EVENT_STYLES.values() for tone in (light, dark)})
THEMES = {"light": (1, "#ffffff"), "dark": (2, "#15181d")}


def luminance(colour: str) -> float:
    """Returns the relative luminance of #rrggbb, 0 to 1, as WCAG defines it."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(part * c for part, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_the_one_that_wcag_defines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colour", SEQUENCE_COLOURS)
def test_words_on_a_drawings_box_can_be_read(colour):
    assert contrast(ink_on(colour), colour) >= LEAST


@pytest.mark.parametrize("colour", [INK, FAINT])
def test_a_drawings_words_can_be_read(colour):
    assert contrast(colour, GROUND) >= LEAST


@pytest.mark.parametrize("theme", THEMES)
def test_the_colours_of_the_legend_differ_from_the_page(theme):
    """A swatch is no text, and its word stands beside it: 2 to 1 is enough to see it."""
    place, ground = THEMES[theme]
    tones = [style[place] for style in EVENT_STYLES.values()]
    tones += [style[place - 1] for style in CAUSE_STYLES.values()]
    assert [tone for tone in tones if contrast(tone, ground) < 2] == []


@pytest.mark.browser
def test_words_on_a_timelines_box_can_be_read():
    source = base64.b64encode(f"{SOURCE}\nexport {{ inkOn }};".encode()).decode()
    with chromium() as browser:
        page = browser.new_page()
        inks = page.evaluate(
            """async ([source, colours]) => {
              const { inkOn } = await import("data:text/javascript;base64," + source);
              return colours.map(inkOn);
            }""",
            [source, COLOURS],
        )
    for colour, ink in zip(COLOURS, inks, strict=True):
        assert contrast(colour, ink) >= LEAST, colour
