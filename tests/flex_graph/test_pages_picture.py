"""The picture of a step's pages draws what the tables and lists say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.flex_graph.mask import BIDIRECTIONAL, CAUSAL, sliding_window
from solutions.flex_graph.pictures.pages_picture import (
    CACHE_TOP,
    CELL,
    LEFT,
    LISTS_TOP,
    NOBODY,
    NULL,
    NUM_BLOCKS,
    ROW,
    TABLES_TOP,
    TOKENS_TOP,
    WIDTH,
    PagesPicture,
)
from solutions.pictures.sheet import GROUND, SEQUENCE_COLOURS
from tests.drawings import boxes, expect_all_inside, expect_no_words_on_each_other, texts

MASKS = [CAUSAL, BIDIRECTIONAL, sliding_window(16), sliding_window(40)]


@st.composite
def pictures(draw):
    """Draws a PagesPicture of one to three requests with at most 48 new tokens."""
    query_lens = draw(
        st.lists(st.integers(0, 40), min_size=1, max_size=3).filter(lambda new: 0 < sum(new) <= 48)
    )
    seq_lens = [draw(st.integers(new, 80)) for new in query_lens]
    return PagesPicture(seq_lens, query_lens, draw(st.integers(0, 5)), draw(st.sampled_from(MASKS)))


def colours(figure, top):
    """Returns the colours of the boxes in the row at height `top`, left to right."""
    return [box.colour for box in boxes(figure, top)]


def numbers(figure, top):
    """Returns the numbers that are written in the row at height `top`, to the right of its name,
    left to right."""
    found = [(*text.get_position(), text.get_text()) for text in texts(figure)]
    return [int(word) for x, y, word in sorted(found) if y == top + 15 and x > LEFT]


def list_tops(picture):
    return [LISTS_TOP + ROW * group for group in range(len(picture.lists))]


def seen_pages(picture, group):
    """Returns the blocks with a key that one of the group's tokens may see, by the definition of
    the mask."""
    blocks, mask = set(), picture.mask
    starts = np.cumsum([0, *picture.query_lens])
    for token in range(16 * group, min(16 * (group + 1), picture.num_tokens)):
        request = picture.requests[token]
        length = picture.seq_lens[request]
        query = length - picture.query_lens[request] + token - starts[request]
        window = mask.sliding_window or length
        for key in range(length):
            behind = query - key
            if (behind >= 0 or not mask.causal) and abs(behind) < window:
                blocks.add(picture.pages_of(request)[key // 16])
    return sorted(blocks)


@given(pictures())
@settings(max_examples=20)
def test_each_group_lists_the_pages_that_its_tokens_may_see(picture):
    expected = [seen_pages(picture, group) for group in range(-(-picture.num_tokens // 16))]
    assert picture.lists == expected
    figure = picture.figure
    assert [numbers(figure, top) for top in list_tops(picture)] == [[*row, -1] for row in expected]


@given(pictures())
@settings(max_examples=20)
def test_its_text_is_the_lists_and_both_tables(picture):
    title, *lines = picture.text.splitlines()
    assert title == picture.title
    groups = [line for line in lines if line.startswith("group")]
    assert len(groups) == len(picture.lists)
    for line, blocks in zip(groups, picture.lists, strict=True):
        _, pages, listed = line.split(":")
        assert int(pages.split()[0]) == len(blocks)
        assert [int(word) for word in listed.split()] == [*blocks, -1]
    places = next(line for line in lines if line.startswith("page of block")).split()[3:]
    assert len(places) == NUM_BLOCKS
    for request in range(len(picture.seq_lens)):
        line = next(line for line in lines if line.startswith(f"request {request}:"))
        blocks = [int(word) for word in line.split("blocks")[1].split()]
        assert [int(places[block]) for block in blocks] == list(range(len(blocks)))


@given(pictures())
@settings(max_examples=20)
def test_a_block_has_the_colour_of_its_request_wherever_it_is_drawn(picture):
    figure = picture.figure
    cache = colours(figure, CACHE_TOP)
    assert len(cache) == NUM_BLOCKS and cache[0] == NULL
    for request in range(len(picture.seq_lens)):
        colour, blocks = SEQUENCE_COLOURS[request], picture.pages_of(request)
        row = colours(figure, TABLES_TOP + ROW * request)
        assert row == [colour] * len(blocks) + [NOBODY] * (len(row) - len(blocks))
        assert {block for block in range(NUM_BLOCKS) if cache[block] == colour} == set(blocks)
    for top, blocks in zip(list_tops(picture), picture.lists, strict=True):
        assert colours(figure, top) == [cache[block] for block in blocks]


@given(pictures())
@settings(max_examples=20)
def test_each_token_is_drawn_once_and_the_last_group_is_filled(picture):
    tokens = [SEQUENCE_COLOURS[request] for request in picture.requests]
    filling = [NOBODY] * (-picture.num_tokens % 16)
    assert colours(picture.figure, TOKENS_TOP) == tokens + filling


@given(pictures())
@settings(max_examples=20)
def test_nothing_lies_outside_the_picture(picture):
    figure = picture.figure
    expect_all_inside(figure)
    expect_no_words_on_each_other(figure)


def test_the_longest_list_has_room_for_its_end():
    picture = PagesPicture([80, 80, 80], [14, 1, 1], mask=BIDIRECTIONAL)
    assert numbers(picture.figure, LISTS_TOP) == [*range(1, NUM_BLOCKS), -1]
    assert LEFT + CELL * NUM_BLOCKS <= WIDTH


@pytest.mark.parametrize("order", range(5))
def test_another_order_moves_blocks_and_nothing_else(order):
    first, other = (
        PagesPicture([70, 40, 24], [1, 20, 1]),
        PagesPicture([70, 40, 24], [1, 20, 1], order),
    )
    assert [len(row) for row in other.lists] == [len(row) for row in first.lists]
    assert (other.text == first.text) == (order == 0)
    assert other.title == first.title


def test_a_block_belongs_to_one_request_and_garbage_to_none():
    picture = PagesPicture([70, 40, 24], [1, 20, 1])
    held = [block for request in range(3) for block in picture.pages_of(request)]
    assert len(held) == len(set(held)) == 5 + 3 + 2
    assert 0 not in held
    behind = picture.block_table[1, 3:]
    assert set(behind) <= set(range(1, NUM_BLOCKS)), "it looks like pages, and is none"


def test_a_window_lets_groups_forget_pages():
    lengths, new = [80, 80, 80], [1, 1, 1]
    assert len(PagesPicture(lengths, new).lists[0]) == 15
    assert len(PagesPicture(lengths, new, mask=sliding_window(16)).lists[0]) == 3


def test_a_request_that_is_not_in_the_step_keeps_its_pages():
    picture = PagesPicture([70, 40, 24], [1, 0, 1])
    assert picture.title == "2 tokens of 2 requests in 1 group of 16, blocks of 16"
    assert not set(picture.pages_of(1)) & set(picture.lists[0])
    assert picture.owners.count(1) == 3


def test_numbers_can_be_read_on_their_ground():
    figure = PagesPicture([70, 40, 24], [1, 20, 1]).figure
    words = {(text.get_text(), text.get_color()) for text in texts(figure)}
    assert ("0", GROUND) not in words, "block 0 is grey, and its number is not white"
    assert ("3", GROUND) in words
