"""Deep tests: `make test` runs a slice of each, or none of it; `make test-deep` runs all of it.

    @pytest.mark.deep(15)
    @pytest.mark.parametrize("optimizations", Optimizations.combinations(), ids=str)
    def test_every_combination_...

`make test` runs the second of every 15 parametrisations, always the same ones. (The first one is
often empty. With 15, three of these 32 are run, with every flag on and off and all of them on. With
8, three flags would never change.) Without a number `make test` leaves out the test, or only the
marked parametrisation:

    @pytest.mark.parametrize("chapter", ["01", pytest.param("02", marks=pytest.mark.deep)])

A test that is requested by its id always runs, so a failure can be run again by its name.
"""

from __future__ import annotations

from collections import Counter

import pytest

MARKER = "deep"


def all_run(config: pytest.Config) -> bool:
    """Returns True in a deep run, and if pytest's command line names single tests, such as
    `tests/test_a.py::test_all[3]`. They all run: pytest collects no others, so a test's number
    among its parametrisations is unknown."""
    return config.getoption("deep") or any("::" in argument for argument in config.args)


def slice_of(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Returns (the tests that `make test` runs, the other tests)."""
    kept, left_out = [], []
    number: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker(MARKER)
        function = item.nodeid.partition("[")[0]
        (kept if _is_kept(marker, number[function]) else left_out).append(item)
        number[function] += 1
    return kept, left_out


def _is_kept(marker: pytest.Mark | None, number: int) -> bool:
    if marker is None:
        return True
    return bool(marker.args) and number % marker.args[0] == 1
