"""Tests that go deep: `make test` runs a slice of each, `make test-deep` all of it.

    @pytest.mark.deep(5)
    @pytest.mark.parametrize("optimizations", Optimizations.combinations(), ids=str)
    def test_every_combination_...

`make test` runs the second of every 5 parametrisations, always the same ones. (Not the first, which
often has nothing in it; and 5, since every flag is on and off then: of 32 combinations every 4th
would leave the last two flags as they are.)
"""

from __future__ import annotations

from collections import Counter

import pytest

MARKER = "deep"


def slice_of(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """(those that `make test` runs, the others)."""
    kept, left_out = [], []
    number: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker(MARKER)
        function = item.nodeid.partition("[")[0]
        is_kept = marker is None or number[function] % marker.args[0] == 1
        number[function] += 1
        (kept if is_kept else left_out).append(item)
    return kept, left_out
