"""The commands `debubble reset`, `hint` and `check`."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from debubble.accelerator import current
from debubble.cli import app


@pytest.fixture
def debubble(workbook, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", current().name)

    def debubble(*arguments: str, answer: str | None = None):
        return CliRunner().invoke(app, [*arguments], input=answer)

    return debubble


def test_reset_says_when_there_is_nothing_to_do(debubble):
    result = debubble("reset", "add_up")
    assert (result.exit_code, result.output) == (
        0, "katas/tiny/add_up.py has no edits: nothing to reset.\n"
    )  # fmt: skip


def test_reset_shows_the_edits_and_asks(debubble, workbook):
    workbook.edit_stub("total = 0", "total = 1")
    result = debubble("reset", "add_up", answer="n\n")
    assert result.exit_code == 0
    assert "-    total = 1\n  +    total = 0" in result.output
    assert "katas/tiny/add_up.py has your edits (-). Reset it? [y/N]" in result.output
    assert "Nothing was changed." in result.output
    assert "total = 1" in workbook.stub.read_text()


def test_reset_keeps_the_edits_beside_the_stub(debubble, workbook):
    workbook.edit_stub("total = 0", "total = 1")
    result = debubble("reset", "add_up", answer="y\n")
    assert "Your version is in katas/tiny/add_up.py.bak." in result.output
    assert "total = 0" in workbook.stub.read_text()
    assert "total = 1" in (workbook.root / "katas" / "tiny" / "add_up.py.bak").read_text()


def test_reset_does_not_ask_when_told_so(debubble, workbook):
    workbook.edit_stub("total = 0", "total = 1")
    assert debubble("reset", "add_up", "--yes").exit_code == 0
    assert "total = 0" in workbook.stub.read_text()


def test_reset_without_an_answer_changes_nothing(debubble, workbook):
    workbook.edit_stub("total = 0", "total = 1")
    result = debubble("reset", "add_up", answer="")
    assert result.exit_code == 2
    assert "`--yes` resets it without asking" in result.output
    assert "total = 1" in workbook.stub.read_text()


def test_reset_brings_a_stub_back_that_is_gone(debubble, workbook):
    workbook.stub.unlink()
    assert debubble("reset", "add_up").exit_code == 0
    assert workbook.stub.is_file()


@pytest.mark.parametrize("command", ["reset", "hint"])
def test_an_unknown_kata_suggests_the_nearest(debubble, command):
    result = debubble(command, "add_pu")
    assert result.exit_code == 2
    assert result.output == "there is no kata 'add_pu': did you mean 'add_up'?\n"


def test_hint_prints_the_hint(debubble):
    result = debubble("hint", "add_up")
    assert "Add up (katas/tiny/add_up.py)" in result.output
    assert "There is a function for that." in result.output


def test_check_prints_a_table_and_its_verdict(debubble):
    result = debubble("check")
    assert result.exit_code == 0, result.output
    assert "tiny/add_up" in result.output and "2 of 2" in result.output
    assert "All 6 claims hold." in result.output


def test_check_fails_with_the_reason(debubble, workbook):
    workbook.edit("solutions/tiny/add_up.py", "return sum(numbers)", "return 7")
    result = debubble("check")
    assert result.exit_code == 1
    assert "✘ add_up, solution: test_the_sum_is_right fails on the solution" in result.output


def test_check_writes_stubs_on_request(debubble, workbook):
    workbook.edit("solutions/tiny/add_up.py", "The sum of", "The whole sum of")
    assert debubble("check").exit_code == 1
    result = debubble("check", "add_up", "--write-stubs")
    assert result.exit_code == 0 and "wrote katas/tiny/add_up.py" in result.output
    assert "All 7 claims hold." in result.output


def test_check_of_all_katas_tries_one_attempt_of_each_kind(debubble):
    """Two of three attempts fail the same test: one of them is tried with a flag or a name."""
    few, every = debubble("check"), debubble("check", "--every-attempt")
    assert "2 of 2" in few.output and "--every-attempt" in few.output
    assert "3 of 3" in every.output and "--every-attempt" not in every.output
    assert "3 of 3" in debubble("check", "add_up").output


def test_check_of_all_katas_runs_on_an_attempt_the_tests_that_it_must_fail(debubble, workbook):
    """An attempt that fails a test which its header does not name is found by a flag or a name."""
    body = "    counter.append(0)\n    return 0"
    workbook.attempt("counts_all", ["test_it_counts_nothing"], "counted 1 times", body)
    assert debubble("check").exit_code == 0
    for options in (["--every-attempt"], ["add_up"]):
        assert "counts_all" in debubble("check", *options).output
        assert debubble("check", *options).exit_code == 1


def test_stubs_are_written_without_a_proof(debubble, workbook, monkeypatch):
    """`check --write-stubs` writes the stub of a changed solution without proving the katas, which
    would take long."""
    workbook.edit("solutions/tiny/add_up.py", "return sum(numbers)", "return 7")
    workbook.edit("solutions/tiny/add_up.py", "The sum of", "The whole sum of")
    monkeypatch.delattr("debubble.exercises.proof.check.check")
    result = debubble("check", "--write-stubs", "--device", "cuda")
    assert (result.exit_code, result.output) == (
        0, "wrote katas/tiny/add_up.py\n`debubble check` proves the katas.\n"
    )  # fmt: skip
    assert "No stub is missing" in debubble("check", "--write-stubs").output


def test_check_refuses_an_accelerator_that_is_not_there(debubble):
    other = "cuda" if current().name == "sim" else "sim"
    result = debubble("check", "--device", other)
    assert result.exit_code == 2 and "Traceback" not in result.output


def test_a_wrong_device_in_the_environment_is_a_sentence(debubble, monkeypatch):
    monkeypatch.setenv("DEBUBBLE_DEVICE", "smi")
    result = debubble("check")
    assert (result.exit_code, result.output) == (
        2, "DEBUBBLE_DEVICE 'smi' is unknown: choose one of auto, cuda, sim, did you mean 'sim'?\n"
    )  # fmt: skip
    assert debubble("hint", "add_up").exit_code == 0


def test_ctrl_c_ends_a_command_with_a_word_and_no_traceback(debubble, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("debubble.commands.check.check", interrupt)
    result = debubble("check")
    assert result.exit_code and result.output.startswith("\nStopped.\n")


def test_ctrl_c_while_a_command_is_imported_ends_it_with_a_word(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    command = [sys.executable, "-m", "debubble", "list"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (130, "\nStopped.\n")


def test_help_names_all_commands():
    command = [sys.executable, "-m", "debubble", "--help"]
    result = subprocess.run(command, capture_output=True, text=True)
    for name in ("doctor", "calibrate", "trace", "hint", "reset", "check"):
        assert name in result.stdout
