"""The map of the fastest paths: each cell's colour, opacity and number show what was measured."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.offload.choice.crossover import PATH_WORDS, PATHS
from solutions.offload.pictures.crossover_picture import (
    PALEST,
    ROW,
    TOP,
    CrossoverPicture,
    opacity_of,
)
from solutions.pictures.sheet import GROUND, SEQUENCE_COLOURS
from tests.drawings import boxes, expect_all_inside, expect_no_words_on_each_other, texts, words

from .times import KIB, crossover_of, line_times

COLOUR = dict(zip(PATHS, SEQUENCE_COLOURS, strict=False))


def picture_of(times, sizes=(4 * KIB, 64 * KIB), counts=(16, 256)):
    """Returns a CrossoverPicture. `times` is {(bytes, count): the paths' times in µs, in the order
    of PATHS}."""
    return CrossoverPicture(
        crossover_of(lambda path, *cell: times[cell][PATHS.index(path)], sizes=sizes, counts=counts)
    )


def cells(picture):
    """Returns [(colour, opacity)] of the picture's cells, row by row, left to right."""
    figure = picture.figure
    rows = [boxes(figure, TOP + ROW * row) for row in range(len(picture.crossover.sizes))]
    return [(box.colour, box.opacity) for row in rows for box in row]


def numbers(picture):
    return [float(word[:-1]) for word in words(picture.figure) if word.endswith("×")]


FOUR = {
    (4 * KIB, 16): (10.0, 20.0),
    (4 * KIB, 256): (90.0, 10.0),
    (64 * KIB, 16): (40.0, 10.0),
    (64 * KIB, 256): (10.0, 10.0),
}


def test_a_cell_has_the_colour_of_the_fastest_path():
    assert [colour for colour, _ in cells(picture_of(FOUR))] == [
        COLOUR[path] for path in ("dma", "kernel", "kernel", "dma")
    ]


def test_its_number_is_how_many_times_as_long_the_other_engine_takes():
    assert numbers(picture_of(FOUR)) == [2.0, 9.0, 4.0, 1.0]


def test_it_is_pale_where_both_are_as_fast_and_full_where_one_is_far_ahead():
    strengths = [strength for _, strength in cells(picture_of(FOUR))]
    assert strengths[3] == PALEST and strengths[1] == 1.0
    assert PALEST < strengths[0] < strengths[2] < 1.0


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_a_larger_lead_is_never_paler(one, other):
    smaller, larger = sorted((one, other))
    assert PALEST <= opacity_of(smaller) <= opacity_of(larger) <= 1.0


@st.composite
def pictures(draw):
    sizes = sorted(draw(st.sets(st.integers(8, 1 << 24), min_size=1, max_size=8)))
    counts = sorted(draw(st.sets(st.integers(1, 9999), min_size=1, max_size=12)))
    random = draw(st.randoms(use_true_random=False))
    return CrossoverPicture(
        crossover_of(lambda *_: random.uniform(1, 1000), sizes=sizes, counts=counts)
    )


@given(pictures())
@settings(max_examples=20)
def test_every_cell_is_drawn_once_and_nothing_lies_outside(picture):
    crossover = picture.crossover
    assert len(cells(picture)) == len(crossover.sizes) * len(crossover.counts)
    figure = picture.figure
    expect_all_inside(figure)
    expect_no_words_on_each_other(figure)


@given(pictures())
@settings(max_examples=20)
def test_a_cell_is_what_selection_would_choose(picture):
    crossover = picture.crossover
    chosen = [crossover.best(size, count) for size in crossover.sizes for count in crossover.counts]
    assert [colour for colour, _ in cells(picture)] == [COLOUR[path] for path in chosen]


def test_rows_and_columns_have_their_names_and_so_have_the_colours():
    shown = words(picture_of(FOUR).figure)
    assert {"4 KiB", "64 KiB", "16", "256", "pieces", *PATH_WORDS.values()} <= set(shown)
    assert shown.index("4 KiB") < shown.index("64 KiB")


def test_its_figures_are_a_row_for_each_size_and_are_read_out():
    picture = picture_of(FOUR)
    assert picture.numbers.splitlines() == [
        "The fastest path, measured on NVIDIA A30, and how much faster it is",
        "pieces: 16, 256",
        "4 KiB: DMA batch 2×, kernel in place 9×",
        "64 KiB: kernel in place 4×, DMA batch 1×",
    ]
    assert picture.figure.get_label() == picture.numbers


def test_its_text_has_no_figures_of_a_machine():
    texts = {
        CrossoverPicture(crossover_of(times, gpu=gpu)).text
        for times, gpu in ((line_times, "A"), (lambda *_: 1.0, "B"))
    }
    assert texts == {
        "The fastest path by bytes a piece and number of pieces\n"
        "4 KiB to 64 KiB, 16 to 4096 pieces: DMA batch; kernel in place"
    }


def test_numbers_can_be_read_on_their_ground():
    inks = {
        text.get_text(): text.get_color()
        for text in texts(picture_of(FOUR).figure)
        if text.get_text().endswith("×")
    }
    assert inks["9×"] == GROUND
    assert inks["1×"] != GROUND and inks["2×"] != GROUND


@pytest.mark.parametrize(("lead", "word"), [(1.0, "1×"), (1.234, "1.23×"), (20.55, "20.6×")])
def test_three_digits_are_enough(lead, word):
    one = {(4 * KIB, 16): (lead, 1.0, 2.0)}
    assert word in words(picture_of(one, sizes=(4 * KIB,), counts=(16,)).figure)
