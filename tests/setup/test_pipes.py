"""Commands whose reader stops early, and terminals that know ASCII alone."""

import os
import subprocess
import sys

import pytest

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
