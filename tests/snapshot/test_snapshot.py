"""What was public, claimed, tested, counted and shown stays, wherever its files lie.

`python -m tests.snapshot` takes the snapshot again.
"""

import pytest

from .collected import by_function, vanished
from .comparison import MOST, changes, complaint
from .take import PARTS

COUNTED = ("programs", "steps")
TESTS = by_function(
    ["a/test_x.py::test_one", "a/test_x.py::test_two[1]", "a/test_x.py::test_two[2]"]
)


def hold(name):
    if problem := PARTS[name].problem():
        pytest.fail(problem, pytrace=False)


@pytest.mark.parametrize("name", [name for name in PARTS if name not in COUNTED])
def test_what_there_was_is_still_there(name):
    hold(name)


@pytest.mark.sim
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COUNTED)
def test_sim_still_counts_the_same(accelerator, name):
    hold(name)


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        ({"gdn": {}}, "gdn, decode vanished"),
        ({}, "gdn vanished"),
        ({"gdn": {"decode": {"kernels": 3}}}, "gdn, decode, kernels was 2 and is 3"),
        ({"gdn": {"decode": "()"}}, "gdn, decode was {'kernels': 2} and is '()'"),
    ],
    ids=["a name", "a group", "a number", "another kind"],
)
def test_what_vanished_or_changed_is_said(now, sentence):
    assert list(changes({"gdn": {"decode": {"kernels": 2}}}, now)) == [sentence]


def test_what_is_new_may_be_there():
    assert not list(changes({"gdn": {"a": 1}}, {"gdn": {"a": 1, "b": 2}, "common": {"c": 3}}))


def test_a_test_that_vanished_is_named():
    one, two = "a/test_x.py::test_one", "a/test_x.py::test_two"
    for left, sentence in {
        (one, f"{two}[2]"): f"{two}[1] vanished",
        (one,): f"{two}[1] vanished, and 1 more of it",
        (f"{two}[1]", f"{two}[2]", f"{two}[3]"): f"{one} vanished",
        (): "a/test_x.py vanished, and with it 3 tests",
    }.items():
        assert list(vanished(TESTS, by_function(left), {})) == [sentence]


@pytest.mark.parametrize(
    "table",
    [
        {"a/test_x.py": "b/test_x.py"},
        {"a/": "b/"},
        {
            "a/test_x.py::test_one": "b/test_x.py::test_one",
            "a/test_x.py::test_two": "b/test_x.py::test_two",
        },
        {"a/": "c/", "a/test_x.py": "b/test_x.py", "a/test_x": "d/test_x"},
    ],
    ids=["a file", "a folder", "functions", "the longest entry"],
)
def test_a_test_that_moved_has_not_vanished(table):
    moved = by_function(
        ["b/test_x.py::test_one", "b/test_x.py::test_two[1]", "b/test_x.py::test_two[2]"]
    )
    assert not list(vanished(TESTS, moved, table))
    assert list(vanished(TESTS, moved, {}))


def test_a_long_list_is_cut_short():
    lines = complaint([f"{number} vanished" for number in range(MOST + 5)], "Look.").splitlines()
    assert lines[MOST - 1 : MOST + 2] == [f"{MOST - 1} vanished", "... and 5 more", "Look."]
