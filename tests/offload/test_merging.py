"""Merging, compared with an oracle that lists every byte."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solutions.offload import merge_adjacent

pieces = st.tuples(st.integers(1, 60), st.integers(1, 60), st.integers(0, 5))
lists_of_pieces = st.lists(pieces | st.sampled_from(["goes on", "goes on in the source"]))
"""Draws lists of pieces (source, target, bytes), or names of pieces that begin where the piece
before them ends."""


def as_arrays(drawn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = []
    for piece in drawn:
        source, target, size = made[-1] if made else (1, 1, 3)
        if piece == "goes on":
            piece = (source + size, target + size, 2)
        elif piece == "goes on in the source":
            piece = (source + size, target + size + 1, 2)
        made.append(piece)
    columns = zip(*made, strict=True) if made else ([], [], [])
    return tuple(np.array(column, dtype=np.int64) for column in columns)


def bytes_of(src, dst, sizes) -> list[tuple[int, int]]:
    """Returns (source, target) of every byte that the pieces copy, in order."""
    return [
        (source + byte, target + byte)
        for source, target, size in zip(src.tolist(), dst.tolist(), sizes.tolist(), strict=True)
        for byte in range(size)
    ]


@given(lists_of_pieces)
def test_the_same_bytes_in_the_same_order(drawn):
    given_pieces = as_arrays(drawn)
    merged = merge_adjacent(*given_pieces)
    assert bytes_of(*merged) == bytes_of(*given_pieces)
    assert [column.dtype for column in merged] == [np.dtype(np.int64)] * 3


@given(lists_of_pieces)
def test_nothing_is_left_to_merge(drawn):
    src, dst, sizes = merge_adjacent(*as_arrays(drawn))
    assert (sizes > 0).all()
    ends = zip((src + sizes).tolist(), (dst + sizes).tolist(), strict=True)
    starts = zip(src.tolist(), dst.tolist(), strict=True)
    assert all(end != start for end, start in zip([*ends][:-1], [*starts][1:], strict=True))


def test_what_was_given_is_not_changed():
    given_pieces = as_arrays([(1, 1, 3), "goes on", (9, 9, 0)])
    copies = [column.copy() for column in given_pieces]
    merge_adjacent(*given_pieces)
    assert all(np.array_equal(*pair) for pair in zip(given_pieces, copies, strict=True))
