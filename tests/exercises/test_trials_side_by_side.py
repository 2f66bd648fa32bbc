"""Katas of several systems run in several processes, with the same results as in one."""

from functools import partial

import pytest

from debubble.accelerator import current
from debubble.exercises.proof import trials_apart, trials_side_by_side
from debubble.exercises.proof.check import check
from debubble.exercises.running.processes.interpreter import Interpreter
from debubble.exercises.running.under_test import Implementation

from .workbook import ATTEMPTS, BEFORE, ENTRY, SOLUTION, TEST

pytestmark = pytest.mark.sim

ENDLESS = "import itertools; return sum(itertools.repeat(0))"
"""The body of a function that runs forever and that no signal interrupts."""


@pytest.fixture
def two_systems(workbook, monkeypatch):
    """Returns a workbook with two systems, each with one similar kata, on a machine with two
    cores."""
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)
    monkeypatch.setattr(trials_side_by_side.os, "cpu_count", lambda: 2)
    more = ENTRY.replace('"tiny"', '"small"').replace('"add_up"', '"sum_up"')
    workbook.write("katas/katas.toml", ENTRY + more.replace(".tiny.", ".small."))
    workbook.write("solutions/small/__init__.py", "")
    workbook.write("solutions/small/before.py", BEFORE)
    workbook.write("solutions/small/add_up.py", SOLUTION)
    workbook.write("katas/small/test_sum_up.py", TEST)
    for name in ATTEMPTS:
        text = (workbook.root / f"tests/wrong_attempts/tiny/add_up/{name}.py").read_text()
        workbook.write(f"tests/wrong_attempts/small/sum_up/{name}.py", text)
    workbook.files.write_all()
    return workbook


def test_each_kata_gets_its_verdicts_and_progress_reaches_all(two_systems):
    two_systems.edit("solutions/small/add_up.py", "sum(numbers)", "7")
    seen = []
    verdicts = check(two_systems.catalogue, "sim", lambda done, of, doing: seen.append((done, of)))
    assert seen == [(number, 10) for number in range(1, 11)]
    problems = {(v.kata, v.subject): v.problem for v in verdicts if not v.holds}
    assert list(problems) == [("sum_up", "solution")]
    assert "Your code returned 7." in problems["sum_up", "solution"]
    subjects = {
        kata: [v.subject for v in verdicts if v.kata == kata] for kata in ("add_up", "sum_up")
    }
    assert subjects["add_up"] == subjects["sum_up"]
    assert subjects["add_up"][-5:] == ["stub", "solution", *(f"attempt {a}" for a in ATTEMPTS)]


@pytest.mark.deep
def test_code_that_ends_the_process_is_told_apart_from_tests_that_cannot_be_read(two_systems):
    two_systems.edit("katas/tiny/test_add_up.py", "import Diagnosis", "import Nothing")
    (about_tests,) = [v.problem for v in check(two_systems.catalogue, "sim") if not v.holds]
    assert "cannot import name 'Nothing'" in about_tests
    two_systems.edit("solutions/small/add_up.py", "return sum(numbers)", "import os; os._exit(3)")
    (about_crash,) = [v.problem for v in check(two_systems.catalogue, "sim") if not v.holds]
    assert "has crashed: mark the tests" in about_crash


@pytest.mark.deep
def test_a_test_that_hangs_is_named(two_systems, monkeypatch):
    monkeypatch.setattr(trials_apart, "LONGEST_TEST", 10.0)
    two_systems.edit("solutions/small/add_up.py", "return sum(numbers)", ENDLESS)
    (about_it,) = [v.problem for v in check(two_systems.catalogue, "sim") if not v.holds]
    first, *trace = about_it.splitlines()
    assert first == (
        "katas/small/test_sum_up.py::test_the_sum_is_right[solution] hung, "
        "and its process was ended:"
    )
    assert any("solutions/small/add_up.py" in line for line in trace)


@pytest.mark.deep
def test_ctrl_c_ends_what_still_runs(two_systems, monkeypatch):
    """Ctrl-C ends code that would otherwise run for an hour, for which `check` would wait."""
    monkeypatch.setattr(trials_apart, "LONGEST_TEST", 3600.0)
    two_systems.edit("solutions/tiny/add_up.py", "return sum(numbers)", ENDLESS)

    def interrupt(done, of, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(two_systems.catalogue, "sim", interrupt)


@pytest.mark.deep
def test_trials_end_once_whoever_waits_for_them_was_killed(two_systems, tmp_path):
    two_systems.edit("solutions/tiny/add_up.py", "return sum", "import time; time.sleep(1); sum")
    (kata, _) = two_systems.catalogue.katas
    path = two_systems.root / "solutions/tiny/add_up.py"
    slow = [Implementation(kata, "solution", path)] * 100
    task = partial(trials_apart._answer, slow, "sim", tmp_path / "notes.txt", 100.0)
    interpreter = Interpreter(task)
    interpreter.connection.close()
    assert interpreter.process.wait(60) == 1


@pytest.mark.deep
def test_ctrl_c_in_a_test_of_one_system_is_no_verdict(two_systems, monkeypatch):
    monkeypatch.setattr(trials_side_by_side.os, "cpu_count", lambda: 1)

    def interrupt(done, of, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check(two_systems.catalogue, "sim", interrupt)


@pytest.mark.deep
def test_its_processes_have_one_thread(two_systems, tmp_path):
    notes = str(tmp_path / "threads")
    threads = "os.environ['OMP_NUM_THREADS'], torch.get_num_threads()"
    note = f"import os, torch; print({threads}, file=open({notes!r}, 'a'))"
    two_systems.edit("solutions/small/add_up.py", "return", f"{note}\n    return")
    assert all(verdict.holds for verdict in check(two_systems.catalogue, "sim"))
    assert {*(tmp_path / "threads").read_text().splitlines()} == {"1 1"}
