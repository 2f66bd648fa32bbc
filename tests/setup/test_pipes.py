"""Commands whose reader stops early, and terminals that only know ASCII."""

import os
import subprocess
import sys

import pytest

from tests.models.plain_folder import PlainFolder, write_words

COMMANDS = (["list"], ["--help"], ["lesson", "gdn"])


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_stops_early_is_no_error(command):
    run = subprocess.Popen(
        [sys.executable, "-m", "debubble", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run.stdout.close()
    assert run.stderr.read() == b""
    assert run.wait() in (0, 1)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_terminal_may_know_ascii_alone(command):
    run = subprocess.run(
        [sys.executable, "-m", "debubble", *command],
        env={**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert run.stdout


@pytest.mark.sim
@pytest.mark.deep
@pytest.mark.parametrize("is_closed", [True, False])
def test_generate_answers_a_closed_pipe_and_an_ascii_terminal(tmp_path, is_closed):
    folder = PlainFolder.of(tmp_path / "folder").write()
    write_words(folder, [f"é{number}" for number in range(95)], "")
    run = subprocess.Popen(
        [sys.executable, "-m", "solutions.models.generate", str(folder), "é9", "--max-tokens=6"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said = b"" if is_closed else run.stdout.read()
    run.stdout.close()
    errors = run.stderr.read()
    assert run.wait() == is_closed
    assert is_closed or said.startswith(rb"\xe9")
    assert errors.startswith(b"ready") and b"Error" not in errors
