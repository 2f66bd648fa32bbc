"""Races: right programs have none, and in wrong programs both lines are named.

`reported` has races from public issues. `wrong_blind` and `right_blind` were written by somebody
who had never seen what finds the races. `wrong` and `right` have the kinds that these three lack.
"""

import inspect
import json

import pytest
from typer.testing import CliRunner

import debubble
from debubble.cli import app

from .races import reported, right, right_blind, wrong, wrong_blind

pytestmark = pytest.mark.sim

UNPROVEN = {
    "checkpoint_thread_vs_training",
    "numpy_view_read_before_done",
}
"""The names of wrong programs whose races sim does not find."""
OTHER_LINES = {
    "captured_download_read_without_sync": "the copy inside the capture, not the replay",
    "captured_upload_source_refilled": "the copy inside the capture, not the replay",
    "pinned_refilled_through_numpy": "no line for what NumPy writes",
}
"""Wrong programs whose hazard names a different line than the marked one, and what it names."""


def programs_of(module):
    functions = inspect.getmembers(module, inspect.isfunction)
    return [
        function
        for name, function in functions
        if function.__module__ == module.__name__ and not name.startswith("_")
    ]


RIGHT = [*programs_of(right), *programs_of(right_blind)]
WRONG = [program for module in (wrong, reported, wrong_blind) for program in programs_of(module)]


@pytest.fixture
def hazards_of(accelerator):
    def hazards_of(program):
        with debubble.as_cuda(), debubble.record(accelerator) as timeline:
            program()
        return timeline.hazards

    return hazards_of


@pytest.mark.parametrize("program", RIGHT, ids=lambda program: program.__name__)
def test_a_right_program_has_no_race(program, hazards_of):
    assert hazards_of(program) == []


@pytest.fixture
def said_by_syncs(tmp_path, as_a_script):
    """Returns a function that runs a program by `debubble syncs --check` and returns the races."""

    def said(program):
        script, report = tmp_path / "script.py", tmp_path / "report.json"
        script.write_text(f"from {program.__module__} import {program.__name__} as run\nrun()\n")
        options = ["--as-cuda", "--check", "--json", str(report), str(script)]
        done = CliRunner().invoke(app, ["syncs", *options])
        assert done.exit_code == 1 and "No host syncs" not in done.output, done.output
        return json.loads(report.read_text())["races"]

    return said


@pytest.mark.deep(3)
@pytest.mark.parametrize("program", WRONG, ids=lambda program: program.__name__)
def test_of_a_wrong_program_both_lines_are_named(program, said_by_syncs, request):
    if program.__name__ in UNPROVEN:
        request.applymarker(pytest.mark.xfail(strict=True))
    races = said_by_syncs(program)
    assert races
    if program.__name__ in OTHER_LINES:
        return
    text = inspect.getsource(program)
    for side in ("first", "second"):
        if f"# {side}" in text or f" {side}\n" in text:
            assert all(race[side] and side in race[side]["code"] for race in races), races
