"""Blocks share a hash exactly if their keys and values are equal."""

from hypothesis import given
from hypothesis import strategies as st

from solutions.engine.requests.block_hashes import block_hashes

SIZE = 4
TOKENS = list(range(20))


def hashes(tokens, spans=()):
    return block_hashes(tokens, spans, SIZE)


def test_only_full_blocks_have_a_name():
    assert [len(hashes(TOKENS[:count])) for count in (0, 3, 4, 7, 8)] == [0, 0, 1, 1, 2]


def test_a_name_says_all_tokens_up_to_the_blocks_end():
    other = [99, *TOKENS[1:]]
    assert not {*hashes(TOKENS)} & {*hashes(other)}
    assert hashes(TOKENS)[:2] == hashes([*TOKENS[:8], 99, 98, 97, 96])[:2]


def test_an_image_that_goes_on_behind_a_block_is_part_of_its_name():
    """A block's hash depends on the later tokens of an image that begins in the block: the image's
    first token sees its last one, which lies in the next block."""
    other = [*TOKENS[:6], 99, *TOKENS[7:]]
    assert hashes(TOKENS, [(2, 6)])[0] != hashes(other, [(2, 6)])[0]
    assert hashes(TOKENS)[0] == hashes(other)[0]


def test_a_block_within_an_image_has_the_whole_image_in_its_name():
    other = [*TOKENS[:13], 99, *TOKENS[14:]]
    first, second = hashes(TOKENS, [(1, 14)]), hashes(other, [(1, 14)])
    assert not {*first} & {*second}


def test_tokens_behind_an_image_don_t_change_the_names_of_its_blocks():
    other = [*TOKENS[:7], 99, *TOKENS[8:]]
    assert hashes(TOKENS, [(2, 6)])[0] == hashes(other, [(2, 6)])[0]
    assert hashes(TOKENS, [(2, 6)])[1] != hashes(other, [(2, 6)])[1]


def test_where_an_image_is_counts_too():
    names = [hashes(TOKENS, spans)[0] for spans in ([], [(0, 1)], [(0, 3)], [(0, 1), (2, 3)])]
    assert len({*names}) == 4


def test_a_block_whose_image_is_not_complete_has_no_name_and_none_behind_it():
    assert len(hashes(TOKENS[:12], [(6, 13)])) == 1
    assert len(hashes(TOKENS[:14], [(6, 13)])) == 3


def test_what_an_image_of_one_token_shows_is_in_its_blocks_name():
    """The hashes of the block with an image, and of all blocks after it, differ for different
    images, even if the image is a single token with the same id."""
    one, other = (block_hashes(TOKENS, [(4, 4)], SIZE, image_names=[name]) for name in (b"1", b"2"))
    assert one[0] == other[0]
    assert not {*one[1:]} & {*other[1:]}


@st.composite
def some_images(draw):
    cuts = sorted(draw(st.sets(st.integers(0, 20), max_size=6)))
    return [(first, end - 1) for first, end in zip(cuts[::2], cuts[1::2], strict=False)]


@given(some_images(), st.integers(0, 20), st.integers(0, 5))
def test_names_that_are_known_need_not_be_made_again(spans, count, num_known):
    names = hashes(TOKENS[:count], spans)
    known = names[:num_known]
    rest = TOKENS[len(known) * SIZE : count]
    assert known + block_hashes(rest, spans, SIZE, known) == names


@given(some_images(), some_images(), st.integers(0, 19))
def test_equal_names_mean_that_all_tokens_of_the_block_see_the_same(spans, other_spans, changed):
    other = [*TOKENS[:changed], 99, *TOKENS[changed + 1 :]]
    pairs = zip(hashes(TOKENS, spans), hashes(other, other_spans), strict=False)
    for number, (name, other_name) in enumerate(pairs):
        same = all(
            _seen(position, TOKENS, spans) == _seen(position, other, other_spans)
            for position in range((number + 1) * SIZE)
        )
        assert name != other_name or same


def _seen(position, tokens, spans):
    ends = [last for first, last in spans if first <= position <= last]
    return tokens[: max([position, *ends]) + 1]
