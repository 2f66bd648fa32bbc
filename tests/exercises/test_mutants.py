"""Mutants of solutions: the edits, and the report of tests that check too little."""

import pytest

from debubble.accelerator import current
from debubble.exercises.kata_files.catalogue import find_catalogue
from debubble.exercises.proof import survivors
from debubble.exercises.proof.mutants import mutants_of
from debubble.exercises.proof.survivors import (
    MOST_SURVIVE,
    REASONS,
    mutate,
    share_that_may_pass,
)

UPLOAD = '''
from collections import deque


class Ring:
    """A ring; `-1 < 2` in a text is no code."""

    def __init__(self, depth: int = 2) -> None:
        self.slots = deque([None] * depth)

    def take(self, event, stream):
        if self.slots[0] is not None and not self.slots[0].query():
            raise RuntimeError(f"slot {0 + 1} is busy")
        with stream:
            event.record()
            stream.wait_event(event)
        kept = self.slots[1:].contiguous().to("cpu", non_blocking=True)
        return kept


def never_used():
    return 1 + 1
'''


@pytest.fixture
def edits(workbook):
    """Returns edits(text, name), which makes `text` the solution, and returns the edits of its
    mutants as "line's text: edit"."""

    def edits(text: str, name: str) -> list[str]:
        workbook.write("solutions/tiny/add_up.py", text)
        entry = (workbook.root / "katas" / "katas.toml").read_text()
        workbook.write("katas/katas.toml", entry.replace(":add_up", f":{name}"))
        (kata,) = workbook.catalogue.__class__(workbook.root).katas
        return [f"{mutant.code}: {mutant.edit}" for mutant in mutants_of(kata)]

    return edits


def test_waits_records_and_copies_are_dropped(edits):
    found = edits(UPLOAD, "Ring")
    assert "event.record(): drops `event.record()`" in found
    assert "stream.wait_event(event): drops `stream.wait_event(event)`" in found
    assert "event.record(): `stream.wait_event(event)` comes before it" in found
    assert "with stream:: drops `with stream`" in found
    line = 'kept = self.slots[1:].contiguous().to("cpu", non_blocking=True)'
    for edit in (
        "drops `.contiguous()`",
        "drops `non_blocking=True`",
        "True becomes False",
        "`1:` has no beginning",
        "1 becomes 2",
    ):
        assert f"{line}: {edit}" in found


def test_conditions_and_defaults_are_changed(edits):
    found = edits(UPLOAD, "Ring")
    line = "if self.slots[0] is not None and not self.slots[0].query():"
    condition = line.removeprefix("if ").removesuffix(":")
    for edit in ("`is not` becomes `is`", "`and` becomes `or`", "drops the `not`"):
        assert f"{line}: {edit}" in found
    assert f"{line}: `{condition}` is never so" in found
    assert "def __init__(self, depth: int = 2) -> None:: 2 becomes 3" in found


ORDER = """
def run(buffers, stream, values, index, check_values, copy):
    check_values(values)
    rows = values[1:]
    buffers.first.copy_(rows)
    buffers.second.copy_(index)
    stream.wait_event(index)
    total = buffers.second.sum(0)
    return -1, copy(values, index), copy(values, values)
"""


def test_an_order_is_changed_where_it_matters(edits):
    swapped = [edit for edit in edits(ORDER, "run") if edit.endswith("comes before it")]
    assert swapped == [
        "rows = values[1:]: `buffers.first.copy_(rows)` comes before it",
        "buffers.second.copy_(index): `stream.wait_event(index)` comes before it",
        "stream.wait_event(index): `total = buffers.second.sum(0)` comes before it",
    ]


def test_arguments_change_places_and_values_are_left_out(edits):
    found = edits(ORDER, "run")
    line = "return -1, copy(values, index), copy(values, values):"
    assert f"{line} `index` comes before `values`" in found
    assert sum("comes before `values`" in edit for edit in found) == 1
    assert f"{line} returns None" in found and f"{line} drops the `-`" in found
    assert f"{line} 1 becomes 2" not in found  # -1 has a special meaning
    assert "total = buffers.second.sum(0): drops `.sum(…)`" in found


def test_a_loop_has_no_turns_and_an_operand_is_left_out(edits):
    text = "def run(n):\n    total = 0\n    for i in range(n):\n        total += i + 1\n"
    found = edits(text + "    return total\n", "run")
    assert "for i in range(n):: `for i` has no turns" in found
    assert "total += i + 1: `1` is left out of it" in found


def test_checks_that_before_does_without_are_left_alone(edits, workbook):
    text = "from x import check_it\n\ndef run(n):\n    check_it(n, 1)\n    return n\n"
    assert not [edit for edit in edits(text, "run") if "check_it" in edit]
    another = text.replace("run", "another").replace("return n", "return 0")
    workbook.write("solutions/tiny/before.py", another + "\n\ndef add_up(n):\n    return n\n")
    assert not [edit for edit in edits(text, "run") if "check_it" in edit]
    workbook.write("solutions/tiny/before.py", text)
    assert "check_it(n, 1): drops `check_it(n, 1)`" in edits(text, "run")


def test_what_decides_by_the_accelerator_is_left_alone(edits):
    text = "def run(a):\n    if a.modelled:\n        a.go()\n    return a\n"
    assert not [edit for edit in edits(text, "run") if "so" in edit.split(": ")[-1]]


@pytest.mark.parametrize(("test", "kept"), [("a.modelled", "go"), ("not a.modelled", "stay")])
def test_a_branch_that_sim_does_not_take_is_left_alone(edits, test, kept):
    text = f"def run(a):\n    if {test}:\n        a.go(1)\n    else:\n        a.stay(1)\n"
    found = edits(text, "run")
    assert {edit.partition("(")[0] for edit in found} == {f"a.{kept}"}


@pytest.mark.deep
def test_few_mutants_may_pass():
    assert share_that_may_pass(find_catalogue()) <= MOST_SURVIVE


def test_texts_errors_types_and_other_functions_are_left_alone(edits):
    found = "\n".join(edits(UPLOAD, "Ring"))
    for text in ("is busy", "in a text", "1 + 1"):
        assert text not in found


@pytest.fixture
def tried_once(monkeypatch):
    """Makes `mutate` run the tests on each mutant of a kata only the first time, since they say the
    same each time."""
    passed, known = survivors._passed, {}

    def remembered(implementations, device):
        if implementations and not known:
            known["passed"] = {it.path.name for it in passed(implementations, device)}
        return [it for it in implementations if it.path.name in known["passed"]]

    monkeypatch.setattr(survivors, "_passed", remembered)


def test_a_mutant_that_passes_is_named(workbook, monkeypatch, tried_once):
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    kata = workbook.catalogue.katas[0]
    text = "def add_up(numbers, counter):\n    return sum(numbers[0:])\n"
    workbook.write("solutions/tiny/add_up.py", text)
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    (survivor,) = mutation.unexplained
    assert str(survivor) == (
        "solutions/tiny/add_up.py:2: `return sum(numbers[0:])`: `0:` has no beginning"
    )
    assert mutation.tried == 3

    entry = "\n".join(
        f'{key} = "{value}"'
        for key, value in {
            "kata": kata.name,
            "line": survivor.mutant.code,
            "edit": survivor.mutant.edit,
            "reason": "0 is where a list begins",
        }.items()
    )
    workbook.write(str(REASONS), f"[[equivalent]]\n{entry}\n")
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    assert not mutation.unexplained and mutation.problem == ""
    assert len(mutation.equivalent) == 1 and not mutation.explained
    assert share_that_may_pass(workbook.catalogue) == 0

    workbook.write(str(REASONS), f"[[equivalent]]\n{entry}\n".replace("sum", "max"))
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    assert "that there is not, or that fails: `return max(numbers[0:])`" in mutation.problem

    workbook.write(str(REASONS), f"[[may_pass]]\n{entry}\n")
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    assert len(mutation.explained) == 1 and not mutation.equivalent and not mutation.unexplained
    assert share_that_may_pass(workbook.catalogue) == pytest.approx(1 / 3)

    left_open = f'[[left_open]]\nkata = "{kata.name}"\nnames = ["add_up"]\nreason = "so"\n'
    workbook.write(str(REASONS), left_open)
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    assert mutation.tried == 0


def test_failures_prove_nothing_if_the_solution_fails_as_well(workbook, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    kata = workbook.catalogue.katas[0]
    workbook.write("solutions/tiny/add_up.py", "def add_up(numbers, counter):\n    return 0\n")
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    assert mutation.problem == (
        "solutions/tiny/add_up.py fails a test without any edit: see `debubble check add_up`"
    )


@pytest.mark.parametrize(
    "name", ["chunk_offsets", pytest.param("load_order", marks=pytest.mark.deep)]
)
def test_no_mutant_of_a_sample_passes_without_a_reason(name):
    catalogue = find_catalogue()
    (mutation,) = mutate(catalogue, [catalogue.kata(name)], current().name)
    assert mutation.tried > 5
    assert [str(survivor) for survivor in mutation.unexplained] == []
    assert mutation.problem == ""
