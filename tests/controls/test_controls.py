"""Each control is noticed by its test, and docs/guards.md says what sim shows."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from .page import PAGE
from .table import ROOT, all_controls

CONTROLS = all_controls()
KINDS = {"wait", "event", "ring", "fence", "mask", "clamp", "padding slot"}
SYSTEMS = sorted({control.system for control in CONTROLS})


def test_each_change_fits_its_module_and_is_another_text():
    for control in CONTROLS:
        assert control.text() != (ROOT / control.file).read_text(encoding="utf-8")


def test_names_are_unique_and_kinds_are_known():
    assert [name for name, times in Counter(it.name for it in CONTROLS).items() if times > 1] == []
    assert {control.kind for control in CONTROLS} == KINDS | {""}


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_its_test_is_there_and_names_what_was_reported(control):
    file, _, name = control.test.partition("::")
    source = " ".join((ROOT / file).read_text(encoding="utf-8").split())
    assert f"def {name.partition('[')[0]}" in source
    for lesson in control.lessons:
        assert lesson in source


def test_the_page_has_a_row_for_each():
    page = PAGE.read_text(encoding="utf-8")
    for control in CONTROLS:
        assert f"| {control.kind}: {control.name} |" in page or not control.kind
        assert all(lesson in page for lesson in control.lessons)


@pytest.mark.deep
@pytest.mark.sim
@pytest.mark.timeout(900)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_test_fails_without_each_guard_and_with_each_fault(accelerator, system):
    """Runs the controls of one system, each in a process of its own."""
    command = [sys.executable, "-m", "tests.controls", system]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    results = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(results) == sum(control.system == system for control in CONTROLS), run.stderr
    page = PAGE.read_text(encoding="utf-8")
    for name, failed, error, row in results:
        assert failed, f"{name}: its test passes ({error})"
        assert row in page or row.startswith("| : "), f"{name}: run python -m tests.controls"
