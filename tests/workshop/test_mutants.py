"""Mutants of solutions: which edits are made, and that tests which ask for too little are seen."""

import pytest

from debubble.accelerator import current
from debubble.workshop.kata_files.catalogue import find_catalogue
from debubble.workshop.proof.mutants import mutants_of
from debubble.workshop.proof.survivors import EQUIVALENT, mutate

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
    """`edits(solution)`: what is done to it, as `line's text: edit`."""

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


def test_texts_errors_types_and_other_functions_are_left_alone(edits):
    found = "\n".join(edits(UPLOAD, "Ring"))
    for text in ("is busy", "in a text", "1 + 1"):
        assert text not in found


def test_a_mutant_that_passes_is_named(workbook, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    kata = workbook.catalogue.katas[0]
    text = "def add_up(numbers, counter):\n    return sum(numbers[0:])\n"
    workbook.write("solutions/tiny/add_up.py", text)
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    (survivor,) = mutation.unexplained
    assert str(survivor) == (
        "solutions/tiny/add_up.py:2: `return sum(numbers[0:])`: `0:` has no beginning"
    )
    assert mutation.tried == 2

    entry = "\n".join(
        f'{key} = "{value}"'
        for key, value in {
            "kata": kata.name,
            "line": survivor.mutant.code,
            "edit": survivor.mutant.edit,
            "reason": "0 is where a list begins",
        }.items()
    )
    workbook.write(str(EQUIVALENT), f"[[equivalent]]\n{entry}\n")
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    assert not mutation.unexplained and mutation.problem == ""

    workbook.write(str(EQUIVALENT), f"[[equivalent]]\n{entry}\n".replace("sum", "max"))
    (mutation,) = mutate(workbook.catalogue, [kata], current().name)
    assert "that there is not, or that fails: `return max(numbers[0:])`" in mutation.problem


@pytest.mark.parametrize("name", ["chunk_offsets", "load_order"])
def test_no_mutant_of_a_sample_passes_without_a_reason(name):
    catalogue = find_catalogue()
    (mutation,) = mutate(catalogue, [catalogue.kata(name)], current().name)
    assert mutation.tried > 5
    assert [str(survivor) for survivor in mutation.unexplained] == []
    assert mutation.problem == ""
