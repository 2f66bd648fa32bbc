"""An SVG of rect, line and text as a PNG: the right colour in the right place."""

from io import BytesIO

import numpy as np
import pytest
from matplotlib.image import imread

from debubble.views.rasterise import DOTS_PER_UNIT, png_of
from solutions.gdn.pictures.chunk_picture import ChunkPicture

BLUE, ORANGE, WHITE = (0, 114, 178), (213, 94, 0), (255, 255, 255)
GROUND = '<rect width="100" height="50" fill="#ffffff"/>'


def pixels(*elements):
    """[height, width, 3] from 0 to 255."""
    svg = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 50">
        {GROUND}{"".join(elements)}</svg>"""
    return np.round(imread(BytesIO(png_of(svg)))[:, :, :3] * 255)


def colour_at(image, x, y):
    return tuple(image[int(y * DOTS_PER_UNIT), int(x * DOTS_PER_UNIT)].astype(int))


def inked(image):
    """((left, right), (top, bottom)) of all that is not white, in the units of the SVG."""
    rows, columns = np.nonzero((image < 250).any(2))
    return (columns.min() / DOTS_PER_UNIT, columns.max() / DOTS_PER_UNIT), (
        rows.min() / DOTS_PER_UNIT,
        rows.max() / DOTS_PER_UNIT,
    )


def test_it_is_as_large_as_the_view_box():
    assert pixels().shape[:2] == (50 * DOTS_PER_UNIT, 100 * DOTS_PER_UNIT)


def test_a_rect_lies_where_it_is_said_to_lie_and_the_later_one_on_top():
    image = pixels(
        '<rect x="10" y="5" width="40" height="20" fill="#0072b2"/>',
        '<rect x="30" y="5" width="40" height="20" fill="#d55e00"/>',
    )
    assert colour_at(image, 20, 15) == BLUE
    assert colour_at(image, 40, 15) == colour_at(image, 60, 15) == ORANGE
    assert colour_at(image, 20, 30) == colour_at(image, 80, 15) == WHITE


def test_a_pale_rect_lets_the_ground_through():
    image = pixels('<rect x="0" y="0" width="50" height="50" fill="#0072b2" fill-opacity="0.5"/>')
    red, green, blue = colour_at(image, 20, 20)
    assert (red, green, blue) == pytest.approx((127, 184, 216), abs=2)


def test_a_line_goes_from_end_to_end():
    ends = 'x1="20" y1="30" x2="80" y2="30" stroke="#d55e00" stroke-width="4"'
    solid, dashed = pixels(f"<line {ends}/>"), pixels(f'<line {ends} stroke-dasharray="3 2"/>')
    (left, right), (top, bottom) = inked(solid)
    assert (left, right) == pytest.approx((20, 80), abs=1)
    assert (top, bottom) == pytest.approx((28, 32), abs=1)
    assert 0.3 < (dashed < 250).any(2).sum() / (solid < 250).any(2).sum() < 0.9


@pytest.mark.parametrize(("anchor", "edge"), [("start", 0), ("end", 1)])
def test_a_text_begins_or_ends_where_its_anchor_says(anchor, edge):
    (columns, rows) = inked(
        pixels(f'<text x="50" y="30" text-anchor="{anchor}" font-size="12" fill="#000">$H$</text>')
    )
    assert columns[edge] == pytest.approx(50, abs=2)
    assert rows == pytest.approx((19, 31), abs=2)


def test_a_bold_text_has_more_ink():
    text = '<text x="5" y="30" font-size="12" fill="#000" font-weight="{}">sequence</text>'
    light, bold = (255 - pixels(text.format(weight)) for weight in (400, 600))
    assert bold.sum() > 1.1 * light.sum()


def test_what_it_cannot_draw_is_refused():
    with pytest.raises(ValueError, match="element 'circle': use rect, line, text"):
        pixels('<circle r="5"/>')


def test_the_picture_of_the_chunks_can_be_drawn():
    png = png_of(ChunkPicture([100, 0, 130]).svg)
    assert png.startswith(b"\x89PNG")
    assert len(png) < 100 * 1024
