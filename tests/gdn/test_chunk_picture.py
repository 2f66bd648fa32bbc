"""The picture of the chunk tables: what it draws is what the tables say."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.gdn.pictures.chunk_picture import (
    CHUNKS_TOP,
    HEIGHT,
    LEFT,
    PROGRAMS_TOP,
    RIGHT,
    TOKENS_TOP,
    WIDTH,
    ChunkPicture,
)
from solutions.measure.svg_shapes import SEQUENCE_COLOURS

from .chunks import tables_of

SVG = "{http://www.w3.org/2000/svg}"
LETTER = 6.5
"""Of text in size 12, at most and on average."""

lengths_and_chunk_size = (
    st.lists(st.integers(0, 200), min_size=1, max_size=5),
    st.sampled_from([16, 32, 64, 128]),
)


def drawn(picture):
    return ElementTree.fromstring(picture.svg)


def boxes(picture, top, opacity="1.0"):
    """[(left, width, colour)] of a row, from left to right."""
    return [
        (float(box.get("x")), float(box.get("width")), box.get("fill"))
        for box in drawn(picture).iter(f"{SVG}rect")
        if box.get("y") == str(top) and box.get("fill-opacity") == opacity
    ]


def words(picture):
    return [text.text for text in drawn(picture).iter(f"{SVG}text")]


@given(*lengths_and_chunk_size)
@settings(max_examples=40)
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
@settings(max_examples=40)
def test_each_chunk_is_drawn_once_in_the_colour_of_its_sequence(lengths, chunk_size):
    picture = ChunkPicture(lengths, chunk_size)
    rows, _ = tables_of(lengths, chunk_size)
    colours = [SEQUENCE_COLOURS[sequence] for sequence, _ in rows]
    assert [colour for *_, colour in boxes(picture, CHUNKS_TOP)] == colours
    assert [colour for *_, colour in boxes(picture, PROGRAMS_TOP)] == colours
    assert len(boxes(picture, TOKENS_TOP)) == sum(length > 0 for length in lengths)


@given(*lengths_and_chunk_size)
@settings(max_examples=40)
def test_nothing_lies_outside_the_picture(lengths, chunk_size):
    root = drawn(ChunkPicture(lengths, chunk_size))
    assert root.get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    for box in root.iter(f"{SVG}rect"):
        assert 0 <= float(box.get("x", 0)) <= WIDTH - float(box.get("width")) + 0.1
    for line in root.iter(f"{SVG}line"):
        assert all(LEFT - 0.1 <= float(line.get(x)) <= RIGHT + 0.1 for x in ("x1", "x2"))
    for text in root.iter(f"{SVG}text"):
        width = LETTER * len(text.text) * float(text.get("font-size")) / 12
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.get("text-anchor")]
        left = float(text.get("x")) - before * width
        assert left >= 0 and left + width <= WIDTH, text.text
        assert 0 < float(text.get("y")) < HEIGHT


def test_chunks_lie_under_their_tokens():
    picture = ChunkPicture([100, 0, 28])
    tokens, chunks = boxes(picture, TOKENS_TOP), boxes(picture, CHUNKS_TOP)
    assert [left for left, *_ in tokens] == [chunks[0][0], chunks[2][0]]
    per_token = (RIGHT - LEFT) / 128
    assert chunks[1][0] - chunks[0][0] == pytest.approx(64 * per_token, abs=0.1)


def test_the_pale_part_of_a_program_is_what_its_chunk_lacks():
    picture = ChunkPicture([96])
    whole = boxes(picture, PROGRAMS_TOP, opacity="0.25")
    filled = boxes(picture, PROGRAMS_TOP)
    assert filled[0] == whole[0]
    assert filled[1][1] == pytest.approx(whole[1][1] / 2, abs=1)


def test_a_sequence_without_tokens_keeps_its_number_and_its_offset():
    picture = ChunkPicture([128, 0, 128])
    assert "sequence 1: no tokens" in words(picture)
    assert "2, 2" in words(picture)
    assert Counter(colour for *_, colour in boxes(picture, CHUNKS_TOP)) == {
        SEQUENCE_COLOURS[0]: 2,
        SEQUENCE_COLOURS[2]: 2,
    }


def test_neighbours_without_tokens_share_a_pin():
    assert "sequences 1, 2: no tokens" in words(ChunkPicture([5, 0, 0]))
    assert "sequences 0, 1: no tokens" in words(ChunkPicture([0, 0, 5]))


def test_no_tokens_at_all_are_a_picture_too():
    picture = ChunkPicture([0, 0])
    assert boxes(picture, CHUNKS_TOP) == boxes(picture, TOKENS_TOP) == []
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
    dashed = [
        line for line in drawn(picture).iter(f"{SVG}line") if line.get("stroke-dasharray") == "3 2"
    ]
    assert len(dashed) == max(0, blind[0] - 1)
    (caption,) = [text for text in words(picture) if text.startswith("Dashed")]
    assert re.search(rf"{blind[0]} pieces?, {blind[1]} with", caption)


def test_a_chunk_size_that_no_kernel_has_is_refused():
    with pytest.raises(ValueError, match="chunks of 24 tokens"):
        _ = ChunkPicture([100], 24).svg
