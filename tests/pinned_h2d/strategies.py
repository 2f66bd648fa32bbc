"""Ragged ranges for property tests."""

from hypothesis import strategies as st

spans = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: tuple(sorted(pair)))
ranges = st.none() | st.dictionaries(
    keys=st.integers(0, 9),
    values=st.lists(spans | st.just((0, 0)), max_size=4),
    max_size=6,
)
