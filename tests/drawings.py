"""Reads a picture's figure: its words, boxes and lines, in pixels from the top left corner."""

from itertools import combinations
from typing import NamedTuple

from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex


class Box(NamedTuple):
    left: float
    right: float
    top: float
    colour: str
    opacity: float


def boxes(figure, top=None):
    """Returns the figure's boxes whose top is at height `top`, or all boxes, in the order of
    drawing."""
    drawn = [
        Box(*path.get_extents().intervalx, path.get_extents().ymin, to_hex(colour), colour[3])
        for row in figure.axes[0].collections
        if isinstance(row, PolyCollection)
        for path, colour in zip(row.get_paths(), row.get_facecolors(), strict=True)
    ]
    return [box for box in drawn if top is None or box.top == top]


def texts(figure):
    """Returns the figure's texts that are not empty, with the tick labels and the x-axis labels of
    visible axes."""
    found = []
    for axes in figure.axes:
        found += axes.texts
        if axes.axison:
            found += [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.xaxis.label]
    return [text for text in found if text.get_text()]


def words(figure):
    return [text.get_text() for text in texts(figure)]


def expect_all_inside(figure):
    figure.draw_without_rendering()
    width, height = figure.bbox.size
    for axes in figure.axes:
        for artist in (*axes.lines, *axes.collections):
            left, bottom, right, top = artist.get_window_extent().extents
            assert left >= 0 and right <= width + 1 and bottom >= 0 and top <= height, artist
    for text in texts(figure):
        left, bottom, right, top = text.get_window_extent().extents
        assert left >= 0 and right <= width and bottom >= 0 and top <= height, text


def expect_no_words_on_each_other(figure):
    figure.draw_without_rendering()
    extents = [(text.get_window_extent(), text.get_text()) for text in texts(figure)]
    for (one, words), (other, other_words) in combinations(extents, 2):
        assert not one.overlaps(other), (words, other_words)
