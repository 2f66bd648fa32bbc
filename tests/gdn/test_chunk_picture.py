"""The picture of the chunk tables draws what the tables say."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.gdn.pictures.chunk_picture import (
    CHUNKS_TOP,
    LEFT,
    PALE,
    PROGRAMS_TOP,
    RIGHT,
    TOKENS_TOP,
    ChunkPicture,
)
from solutions.pictures.sheet import SEQUENCE_COLOURS
from tests.drawings import boxes, expect_all_inside, words

from .chunks import tables_of

lengths_and_chunk_size = (
    st.lists(st.integers(0, 200), min_size=1, max_size=5),
    st.sampled_from([16, 32, 64, 128]),
)


def row(figure, top, opacity=1.0):
    """Returns [(left, width, colour)] of the boxes at height `top` with this opacity, left to
    right."""
    return [
        (box.left, box.right - box.left, box.colour)
        for box in boxes(figure, top)
        if box.opacity == opacity
    ]


@given(*lengths_and_chunk_size)
@settings(max_examples=20)
def test_its_text_is_the_two_tables(lengths, chunk_size):
    rows, offsets = tables_of(lengths, chunk_size)
    title, *lines = ChunkPicture(lengths, chunk_size).text.splitlines()
    assert title.startswith(f"{sum(lengths)} token")
    found = {name: list(map(int, cells)) for name, *cells in map(str.split, lines)}
    assert found == {
        "program": list(range(len(rows))),
        "sequence": [sequence for sequence, _ in rows],
        "chunk": [chunk for _, chunk in rows],
        "offsets": offsets,
    }


@given(*lengths_and_chunk_size)
@settings(max_examples=20)
def test_each_chunk_is_drawn_once_in_the_colour_of_its_sequence(lengths, chunk_size):
    figure = ChunkPicture(lengths, chunk_size).figure
    rows, _ = tables_of(lengths, chunk_size)
    colours = [SEQUENCE_COLOURS[sequence] for sequence, _ in rows]
    assert [colour for *_, colour in row(figure, CHUNKS_TOP)] == colours
    assert [colour for *_, colour in row(figure, PROGRAMS_TOP)] == colours
    assert len(row(figure, TOKENS_TOP)) == sum(length > 0 for length in lengths)


@given(*lengths_and_chunk_size)
@settings(max_examples=20)
def test_nothing_lies_outside_the_picture(lengths, chunk_size):
    figure = ChunkPicture(lengths, chunk_size).figure
    expect_all_inside(figure)
    for box in boxes(figure):
        assert LEFT - 0.1 <= box.left <= box.right <= RIGHT + 0.1


def test_chunks_lie_under_their_tokens():
    figure = ChunkPicture([100, 0, 28]).figure
    tokens, chunks = row(figure, TOKENS_TOP), row(figure, CHUNKS_TOP)
    assert [left for left, *_ in tokens] == [chunks[0][0], chunks[2][0]]
    per_token = (RIGHT - LEFT) / 128
    assert chunks[1][0] - chunks[0][0] == pytest.approx(64 * per_token, abs=0.1)


def test_the_pale_part_of_a_program_is_what_its_chunk_lacks():
    figure = ChunkPicture([96]).figure
    whole = row(figure, PROGRAMS_TOP, opacity=PALE)
    filled = row(figure, PROGRAMS_TOP)
    assert filled[0] == whole[0]
    assert filled[1][1] == pytest.approx(whole[1][1] / 2, abs=1)


def test_a_sequence_without_tokens_keeps_its_number_and_its_offset():
    figure = ChunkPicture([128, 0, 128]).figure
    assert "sequence 1: no tokens" in words(figure)
    assert "2, 2" in words(figure)
    assert Counter(colour for *_, colour in row(figure, CHUNKS_TOP)) == {
        SEQUENCE_COLOURS[0]: 2,
        SEQUENCE_COLOURS[2]: 2,
    }


def test_neighbours_without_tokens_share_a_pin():
    assert "sequences 1, 2: no tokens" in words(ChunkPicture([5, 0, 0]).figure)
    assert "sequences 0, 1: no tokens" in words(ChunkPicture([0, 0, 5]).figure)


def test_no_tokens_at_all_are_a_picture_too():
    picture = ChunkPicture([0, 0])
    figure = picture.figure
    assert row(figure, CHUNKS_TOP) == row(figure, TOKENS_TOP) == []
    assert picture.title == "0 tokens in 2 sequences, chunks of 64: 0 programs"


@pytest.mark.parametrize(
    ("lengths", "blind"),
    [
        ([100, 40, 130], (5, 2)),
        ([128, 0, 128], (4, 0)),
        ([65, 1, 1], (2, 1)),
        ([70, 0, 0, 70], (3, 1)),
        ([0, 0], (0, 0)),
    ],
)
def test_blind_cuts_go_through_sequences(lengths, blind):
    picture = ChunkPicture(lengths)
    assert picture.blind_pieces == blind
    cuts = [mark for mark in picture.sheet.marks if mark[0] == "line" and mark[-1]]
    assert len(cuts) == max(0, blind[0] - 1)
    (caption,) = [text for text in words(picture.figure) if "Dashed" in text]
    assert re.search(rf"{blind[0]} pieces?, {blind[1]} with", caption)


def test_a_chunk_size_that_no_kernel_has_is_refused():
    with pytest.raises(ValueError, match="chunks of 24 tokens"):
        _ = ChunkPicture([100], 24).figure
