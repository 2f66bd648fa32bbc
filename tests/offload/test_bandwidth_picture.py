"""The curves of small copies are drawn where they were measured."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.offload.pictures.bandwidth_picture import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    BandwidthPicture,
)
from solutions.pictures.sheet import DOTS_PER_PIXEL, SEQUENCE_COLOURS
from tests.drawings import expect_all_inside, expect_no_words_on_each_other, texts, words

from .times import KIB, crossover_of, line_times

SIZES = [4 * KIB, 8 * KIB, 24 * KIB, 28 * KIB, 128 * KIB]


@st.composite
def pictures(draw):
    sizes = sorted(draw(st.sets(st.integers(8, 1 << 24), min_size=1, max_size=10)))
    curve = st.lists(st.floats(0.01, 900), min_size=len(sizes), max_size=len(sizes))
    curves = draw(st.lists(curve, min_size=1, max_size=4))
    large_copy = draw(st.none() | st.floats(1, 900))
    names = ("DMA batch", "kernel in place", "kernel after upload", "upstream's preset")
    bandwidths = dict(zip(names, curves, strict=False))
    count = draw(st.integers(1, 100_000))
    return BandwidthPicture(sizes, bandwidths, count, "NVIDIA H200, measured", large_copy)


def curves(figure):
    """Returns [(colour, [(bytes, GB/s)])] of the solid curves in the figure, one for each path."""
    _, axes = figure.axes
    lines = [line for line in axes.lines if line.get_linestyle() == "-"]
    return [(line.get_color(), line.get_xydata().tolist()) for line in lines]


def place_of(figure, nbytes, rate):
    """Returns (x, y) of the point (bytes, GB/s) in the figure, in pixels from the top left
    corner."""
    x, y = figure.axes[1].transData.transform((nbytes, rate))
    return x / DOTS_PER_PIXEL, (figure.bbox.height - y) / DOTS_PER_PIXEL


@given(pictures())
@settings(max_examples=20)
def test_each_point_lies_where_its_size_and_bandwidth_are(picture):
    expected = [
        (colour, [[nbytes, rate] for nbytes, rate in zip(picture.sizes, curve, strict=True)])
        for colour, curve in zip(SEQUENCE_COLOURS, picture.bandwidths.values(), strict=False)
    ]
    assert curves(picture.figure) == expected


@given(pictures())
@settings(max_examples=20)
def test_nothing_lies_outside_the_picture_and_no_point_outside_its_axes(picture):
    figure = picture.figure
    expect_all_inside(figure)
    for _, points in curves(figure):
        for x, y in (place_of(figure, *point) for point in points):
            assert LEFT <= x <= RIGHT and TOP <= y <= BOTTOM


@given(pictures())
@settings(max_examples=20)
def test_names_lie_neither_on_each_other_nor_on_the_axis(picture):
    figure = picture.figure
    expect_no_words_on_each_other(figure)
    heights = [
        text.get_position()[1] for text in texts(figure) if text.get_text() in picture.bandwidths
    ]
    assert len(heights) == len(picture.bandwidths)
    assert max(heights) <= BOTTOM + 5, "the axis has its own names"


def test_axes_are_logarithmic():
    picture = BandwidthPicture([4 * KIB, 16 * KIB, 64 * KIB], {"a": [1.0, 10.0, 100.0]}, 4, "here")
    points = [(4 * KIB, 1.0), (16 * KIB, 10.0), (64 * KIB, 100.0)]
    places = [place_of(picture.figure, *point) for point in points]
    middle = ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2)
    for place, expected in zip(places, ((LEFT, BOTTOM), middle, (RIGHT, TOP)), strict=True):
        assert place == pytest.approx(expected, abs=4)
    assert picture.ticks == [1, 2, 5, 10, 20, 50, 100]


@given(pictures())
@settings(max_examples=20)
def test_ticks_are_round_and_hold_all_that_is_drawn(picture):
    rates = [rate for curve in picture.bandwidths.values() for rate in curve]
    rates += [picture.large_copy] if picture.large_copy else []
    assert picture.ticks[0] <= min(rates) and picture.ticks[-1] >= max(rates)
    assert all(f"{tick:.15e}"[0] in "125" for tick in picture.ticks)
    assert picture.ticks == sorted(set(picture.ticks))


def test_sizes_that_lie_close_share_a_place_and_the_first_keeps_its_name():
    shown = words(BandwidthPicture(SIZES, {"a": [1.0] * 5}, 4, "here").figure)
    assert [word for word in shown if word.endswith("KiB")] == [
        "4 KiB",
        "8 KiB",
        "24 KiB",
        "128 KiB",
    ]


def test_the_large_copy_is_a_dashed_line_at_its_height():
    picture = BandwidthPicture(SIZES, {"a": [5.0] * 5}, 4, "here", large_copy=53.3)
    figure = picture.figure
    (dashed,) = [line for line in figure.axes[1].lines if line.get_linestyle() == "--"]
    assert set(dashed.get_ydata()) == {53.3}
    assert "one large copy: 53.3" in words(figure)
    without = BandwidthPicture(SIZES, {"a": [5] * 5}, 4, "here").figure
    assert not any("large" in word for word in words(without))


def test_a_crossover_has_a_curve_for_each_path_with_its_submission():
    picture = BandwidthPicture.of(crossover_of(line_times), 256)
    assert list(picture.bandwidths) == ["DMA batch", "kernel in place"]
    assert picture.bandwidths["DMA batch"] == pytest.approx(
        [nbytes / 2 / 1e3 for nbytes in picture.sizes]
    )
    assert picture.caption == "measured on NVIDIA A30, from the call until all has arrived"


def test_its_text_has_no_figures_of_a_machine():
    texts = {
        BandwidthPicture.of(crossover_of(times, gpu=gpu), 256, large_copy).text
        for times, gpu, large_copy in ((line_times, "A", 5.0), (lambda *_: 1.0, "B", None))
    }
    assert texts == {
        "GB/s by the size of a piece, 256 pieces a copy\n"
        "4 KiB to 64 KiB: DMA batch; kernel in place"
    }


def test_its_figures_are_a_row_for_each_size_and_are_read_out():
    picture = BandwidthPicture(
        [4 * KIB, 8 * KIB], {"a": [1.234, 2.0], "b": [30.0, 40.06]}, 1, "here", 53.3
    )
    assert picture.numbers.splitlines() == [
        "GB/s by the size of a piece, 1 piece a copy",
        "here",
        "4 KiB: a 1.23, b 30",
        "8 KiB: a 2, b 40.1",
        "one large copy: 53.3",
    ]
    assert picture.figure.get_label() == picture.numbers


@pytest.mark.parametrize(
    ("sizes", "bandwidths", "problem"),
    [
        ([], {"a": []}, "a curve needs a size and a path"),
        ([8], {}, "a curve needs a size and a path"),
        ([8, 16], {"a": [1.0]}, "'a' needs 2 bandwidths above 0"),
        ([8], {"a": [0.0]}, "'a' needs 1 bandwidths above 0"),
        ([8], {"a": [math.nan]}, "'a' needs 1 bandwidths above 0"),
        ([8], {"a": [math.inf]}, "'a' needs 1 bandwidths above 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(sizes, bandwidths, problem):
    with pytest.raises(ValueError, match=problem):
        BandwidthPicture(sizes, bandwidths, 4, "here")
