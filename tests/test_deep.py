"""A slice of the deep tests is the same in every run, and the record says of which source it is."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from solutions.engine import Optimizations
from tests.conftest import pytest_collection_modifyitems
from tests.deep import MARKER, slice_of
from tests.validation import deep
from tests.validation.record import write
from tests.validation.sources import SourceTree


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
    for one in items:
        one.path = Path("test_a.py")
    pytest_collection_modifyitems(config, items)
    assert len(items) == number


def test_a_deep_test_is_found_by_its_marker():
    assert "tests/engine/test_combinations.py" in deep.rests_on()


@pytest.mark.parametrize(
    "path",
    [
        "katas/katas.toml",
        "katas/first_steps/test_upload_without_waiting.py",
        "solutions/pinned_h2d/katas/__init__.py",
        "debubble_pytest.py",
        "assets/calibration/nvidia-h200.json",
        "assets/benchmarks/nvidia-h200/engine.json",
    ],
)
def test_the_record_is_of_all_that_deep_tests_run_and_read(behind, path):
    assert (deep.ROOT / path).exists()
    assert deep.ROOT / path in behind


@pytest.fixture(scope="module")
def behind():
    return SourceTree(deep.ROOT).files_behind([*deep.rests_on(), *deep.BESIDE])


@pytest.fixture
def recorded(monkeypatch, tmp_path, capsys):
    """What is said of the record of a run that had this result; of none, there is no record."""
    monkeypatch.setattr(deep, "RECORD", tmp_path / "deep.json")
    monkeypatch.setattr(deep, "source", lambda: "new")

    def said_of(result=None):
        if result:
            write({"parts": {MARKER: {"date": "2026-11-23T10:00:00"} | result}}, deep.RECORD)
        deep.print_state()
        return capsys.readouterr().out

    return said_of


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, "not run yet"),
        ({"status": "passed", "source_sha256": "new"}, "all passed on 2026-11-23, for this source"),
        ({"status": "passed", "source_sha256": "old"}, "passed on 2026-11-23, for an older source"),
        ({"status": "failed", "source_sha256": "new"}, "failed on 2026-11-23, for this source"),
    ],
)
def test_the_record_is_held_against_the_source(recorded, result, said):
    assert said in recorded(result)
