"""The sheet of the chapters' pictures: the right colour in the right place."""

import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from solutions.pictures.sheet import BAR, DOTS_PER_PIXEL, INK, SEQUENCE_COLOURS, Sheet

from .drawings import words

BLUE, ORANGE, WHITE = (0, 114, 178), (213, 94, 0), (255, 255, 255)


def pixels(sheet):
    """Returns the pixels, [height, width, 3] from 0 to 255."""
    png = BytesIO()
    sheet.figure.savefig(png, format="png")
    png.seek(0)
    return np.round(imread(png)[:, :, :3] * 255)


def colour_at(image, x, y):
    return tuple(image[int(y * DOTS_PER_PIXEL), int(x * DOTS_PER_PIXEL)].astype(int))


@pytest.fixture
def sheet():
    return Sheet(100, 50, "two boxes")


def test_it_measures_css_pixels_from_the_top_left_corner(sheet):
    sheet.boxes([0], 20, 0, [SEQUENCE_COLOURS[0]])
    image = pixels(sheet)
    assert image.shape[:2] == (50 * DOTS_PER_PIXEL, 100 * DOTS_PER_PIXEL)
    assert colour_at(image, 15, BAR - 4) == BLUE
    assert colour_at(image, 25, BAR - 4) == colour_at(image, 15, BAR + 4) == WHITE


def test_a_rect_lies_where_it_is_said_to_lie_and_the_later_one_on_top(sheet):
    for left, colour in zip((10, 30), SEQUENCE_COLOURS, strict=False):
        sheet.boxes([left], 40, 5, [colour])
    image = pixels(sheet)
    assert colour_at(image, 20, 15) == BLUE
    assert colour_at(image, 40, 15) == colour_at(image, 60, 15) == ORANGE
    assert colour_at(image, 20, 30) == colour_at(image, 80, 15) == WHITE


def test_a_pale_rect_lets_the_ground_through(sheet):
    sheet.boxes([0], 50, 0, [(SEQUENCE_COLOURS[0], 0.5)])
    assert colour_at(pixels(sheet), 20, 15) == pytest.approx((127, 184, 216), abs=2)


def test_neighbours_have_a_gap(sheet):
    sheet.boxes([0, 50], 50, 0, SEQUENCE_COLOURS[:2])
    image = pixels(sheet)
    assert (colour_at(image, 48, 10), colour_at(image, 52, 10)) == (BLUE, ORANGE)
    assert min(colour_at(image, 50, 10)) > 180


def test_a_word_is_written_where_its_box_has_room(sheet):
    sheet.boxes([0, 40, 60], [30, 15, 9.5], 0, SEQUENCE_COLOURS[:3], [100, 20, 3])
    assert words(sheet.figure) == ["100", "3"]


@pytest.mark.parametrize(("align", "edge"), [("left", 0), ("right", 1)])
def test_a_text_begins_or_ends_where_its_anchor_says(sheet, align, edge):
    sheet.label(50, 30, "HH", align)
    rows, columns = np.nonzero((pixels(sheet) < 250).any(2))
    ends = columns.min() / DOTS_PER_PIXEL, columns.max() / DOTS_PER_PIXEL
    assert ends[edge] == pytest.approx(50, abs=2)
    assert rows.max() / DOTS_PER_PIXEL == pytest.approx(30, abs=2)


def test_a_bold_text_has_more_ink(sheet):
    other = Sheet(100, 50, "the same in bold")
    sheet.label(50, 30, "sequence", colour=INK)
    other.label(50, 30, "sequence", colour=INK, bold=True)
    light, bold = (255 - pixels(drawn) for drawn in (sheet, other))
    assert bold.sum() > 1.1 * light.sum()


def test_matplotlib_is_imported_when_a_picture_is_drawn_and_pyplot_never():
    code = """if True:
        import sys
        from solutions.gdn.pictures.chunk_picture import ChunkPicture
        picture = ChunkPicture([100, 40])
        print(picture.title, "matplotlib" in sys.modules)
        picture.figure
        print("matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules)"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    *_, before, after = result.stdout.splitlines()
    assert before.endswith("programs False"), result.stderr
    assert after == "True False", result.stderr
