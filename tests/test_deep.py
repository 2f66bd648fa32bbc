"""The slice of the deep tests is the same in every run."""

from types import SimpleNamespace

import pytest

from solutions.engine import Optimizations
from tests.conftest import pytest_collection_modifyitems
from tests.deep import MARKER, slice_of


def item(nodeid, *one_in):
    marker = SimpleNamespace(args=one_in) if one_in else None
    return SimpleNamespace(nodeid=nodeid, get_closest_marker={MARKER: marker}.get)


def test_one_in_so_many_is_kept_of_each_function():
    combinations = [item(f"test_a.py::test_all[{n}]", 3) for n in range(7)]
    pairs = [item(f"test_a.py::test_pairs[{n}]", 2) for n in "ab"]
    plain = item("test_b.py::test_plain")
    kept, left_out = slice_of([*combinations, *pairs, plain])
    assert kept == [combinations[1], combinations[4], pairs[1], plain]
    assert len(left_out) == 6


def test_without_a_number_none_is_kept():
    marked = [item(f"test_a.py::test_chapter[{n}]") for n in "ab"]
    marked[1].get_closest_marker = {MARKER: SimpleNamespace(args=())}.get
    assert slice_of(marked) == ([marked[0]], [marked[1]])


def test_the_slice_of_the_combinations_has_each_optimisation_on_and_off_and_all_of_them():
    combinations = Optimizations.combinations()
    items = [item(f"test_c.py::test_all[{n}]", 15) for n in range(len(combinations))]
    kept = [combinations[items.index(each)] for each in slice_of(items)[0]]
    assert Optimizations() in kept
    for name in vars(kept[0]):
        assert {getattr(each, name) for each in kept} == {True, False}


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["tests/test_a.py::test_all[3]"], 4),
        (["tests/test_a.py", "tests/test_b.py::test_plain"], 4),
        (["tests/test_a.py"], 1),
        (["tests"], 1),
    ],
    ids=["a parametrisation", "a test beside a file", "a file", "a folder"],
)
def test_whoever_names_a_test_by_its_id_gets_no_slice(arguments, number):
    items = [item(f"test_a.py::test_all[{n}]", 4) for n in (3, 4, 5, 6)]
    hook = SimpleNamespace(pytest_deselected=lambda items: None)
    config = SimpleNamespace(args=arguments, getoption={"deep": False}.get, hook=hook)
    pytest_collection_modifyitems(config, items)
    assert len(items) == number
