"""Runs that end with an exception: what is printed, written and returned, wherever it was
raised."""

import json
import re
import sys

import pytest
import torch
from typer.testing import CliRunner

import debubble
from debubble.cli import app

SCRIPT = """\
import debubble, threading, torch
device = debubble.accelerator().device
class Step:
    scale = 2
    def __call__(self, x):
        with torch.no_grad():
            x = x * self.scale
            try:
                return x.sum().item()  # waits
            finally:
                x = None
x = torch.ones(4, device=device)
for _ in range(2):
    Step()(x)
x.tolist()  # waits
done = True
"""
LINES = SCRIPT.splitlines()
NO_VERDICT = ("No host syncs", "never waited", "--device cuda", "never used")


@pytest.fixture
def run(syncs):
    """Returns run(text, *options), which runs `debubble syncs` on a script with this text, writes
    JSON, SARIF and GitHub output, and returns the command's result."""
    files = ["--json", "found.json", "--sarif", "found.sarif", "--github"]
    return lambda text, *options: syncs(text, *files, *options)


def test_a_run_that_is_terminated_still_reports(run, tmp_path):
    ended = run(
        "import os, signal\n"
        + SCRIPT.replace("done = True", "os.kill(os.getpid(), signal.SIGTERM)")
    )
    assert ended.exit_code == 128 + 15
    found, _ = written(tmp_path)
    assert len(found["findings"]) == 2
    assert "script.py:17: os.kill" in ended.output


def written(folder) -> tuple[dict, dict]:
    """Returns the files that the command wrote: the JSON, and the only run in the SARIF."""
    sarif = json.loads((folder / "found.sarif").read_text())
    return json.loads((folder / "found.json").read_text()), sarif["runs"][0]


def with_a_failure_before(number: int) -> str:
    """Returns the text of the test's script with an added line, before line `number` (from 1), that
    raises KeyError."""
    indent = re.match(" *", LINES[number - 1])[0]
    return "\n".join(
        [*LINES[: number - 1], indent + "raise KeyError('here')", *LINES[number - 1 :]]
    )


def compiles(text: str) -> bool:
    try:
        compile(text, "script.py", "exec")
    except SyntaxError:
        return False
    return True


PLACES = [n for n in range(1, len(LINES) + 1) if compiles(with_a_failure_before(n))]


@pytest.mark.parametrize("number", PLACES)
def test_a_failure_at_any_line_is_where_the_report_says(run, tmp_path, number):
    text = with_a_failure_before(number)
    result = run(text, "--check")
    assert result.exit_code == 1
    assert f"The run ended early, by KeyError at script.py:{number}: raise" in result.stdout
    assert not [words for words in NO_VERDICT if words in result.output]
    assert f"::error file=script.py,line={number}," in result.stdout
    found, sarif = written(tmp_path)
    assert len(PLACES) >= len(LINES) - 1, "nothing can stand before `finally`"
    (ending,) = found["ended_early"]
    assert (ending["file"], ending["line"], ending["type"]) == ("script.py", number, "KeyError")
    (invocation,) = sarif["invocations"]
    (said,) = invocation["toolExecutionNotifications"]
    assert not invocation["executionSuccessful"]
    place = said["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == number
    ran = [row["line"] for row in found["findings"]]
    assert all("# waits" in text.splitlines()[line - 1] for line in ran)
    assert number not in ran and len(LINES) not in ran
    assert len(sarif["results"]) == len(ran)


def test_the_same_script_without_a_failure_has_no_ending(run, tmp_path):
    result = run(SCRIPT)
    assert result.exit_code == 0 and "ended early" not in result.output
    found, sarif = written(tmp_path)
    assert not found["ended_early"] and len(found["findings"]) == 2
    assert sarif["invocations"][0]["executionSuccessful"]


QUIET = "import debubble, sys, torch\nx = torch.ones(2, device=debubble.accelerator().device)\n"


@pytest.mark.parametrize(
    ("ending", "status", "says"),
    [
        ("sys.exit(3)", 3, "SystemExit (3) at script.py:3"),
        ("sys.exit('no data')", 1, "SystemExit (no data) at script.py:3"),
        ("sys.exit(256 + 7)", 7, "SystemExit (263) at script.py:3"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt at script.py:3"),
        (
            "raise ExceptionGroup('two', [KeyError(), OSError()])",
            1,
            "ExceptionGroup at script.py:3",
        ),
        ("x @ torch.ones(3, 3, device=x.device)", 1, "RuntimeError at script.py:3"),
        ("import json; json.loads('{')", 1, "JSONDecodeError at script.py:3"),
        ("exec('raise KeyError')", 1, "KeyError at <string>:1"),
        ("import torn", 1, "SyntaxError at script.py:3"),
        ("sys.excepthook = None\n1 / 0", 1, "ZeroDivisionError at script.py:4"),
        ("class E(Exception):\n  __str__ = None\nraise E", 1, "E at script.py:5"),
    ],
)
def test_each_way_to_end_has_its_status_and_no_verdict(run, tmp_path, ending, status, says):
    (tmp_path / "torn.py").write_text("x = (\n")
    result = run(QUIET + ending)
    assert result.exit_code == status
    assert f"The run ended early, by {says}" in result.stdout
    assert not [words for words in NO_VERDICT if words in result.output]
    assert written(tmp_path)[0]["findings"] == []


@pytest.mark.parametrize("ending", ["sys.exit()", "sys.exit(0)"])
def test_an_exit_with_status_0_is_a_whole_run(run, ending):
    result = run(QUIET + ending)
    assert result.exit_code == 0
    assert "No host syncs" in result.stdout and "ended early" not in result.stdout


def test_a_script_that_fails_before_the_device_gets_no_advice(run):
    result = run("import argparse\nargparse.ArgumentParser().error('no config')", "--check")
    assert result.exit_code == 2
    assert "Nothing had run on the device before" in result.stdout
    assert not [words for words in (*NO_VERDICT, "--as-cuda") if words in result.output]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_fails_is_named_and_the_status_is_the_scripts(run, tmp_path):
    result = run(
        QUIET
        + "import threading\ndef load():\n    raise OSError('gone')\n"
        + "t = threading.Thread(target=load, name='loader')\nt.start()\nt.join()\n"
    )
    assert result.exit_code == 0
    assert "The thread 'loader' ended early, by OSError at script.py:5" in result.stdout
    assert "No host syncs" not in result.stdout
    (ending,) = written(tmp_path)[0]["ended_early"]
    assert (ending["thread"], ending["line"]) == ("loader", 5)


def test_nothing_new_is_said_of_what_ran_alone(run, tmp_path):
    run(SCRIPT)
    (tmp_path / "found.json").rename(tmp_path / "known.json")
    result = run(SCRIPT.replace("done = True", "raise KeyError"), "--baseline", "known.json")
    assert result.exit_code == 1
    assert "Nothing new in what ran: 2 of 2 are in the baseline." in result.stdout


@pytest.mark.parametrize(
    ("files", "name", "place"),
    [
        ({"__init__.py": "raise KeyError", "step.py": ""}, "package.step", "__init__.py:1"),
        ({"__init__.py": "", "step.py": "\nraise KeyError"}, "package.step", "step.py:2"),
        ({"__main__.py": "raise KeyError"}, "package", "__main__.py:1"),
    ],
)
def test_a_module_and_its_packages_are_part_of_the_run(run, tmp_path, files, name, place):
    (tmp_path / "package").mkdir()
    for file, text in files.items():
        (tmp_path / "package" / file).write_text(text)
    for module in [m for m in sys.modules if m.partition(".")[0] == "package"]:
        del sys.modules[module]
    result = CliRunner().invoke(app, ["syncs", "-m", name])
    assert result.exit_code == 1
    assert f"The run ended early, by KeyError at {place}" in result.stdout


def test_a_block_that_raises_has_no_verdict_either(accelerator):
    x = torch.ones(2, device=accelerator.device)
    with pytest.raises(KeyError), debubble.find_host_syncs() as report:
        x + 1
        raise KeyError
    assert "No host syncs" not in str(report)
    assert "ended early, by KeyError at test_ends_early.py" in str(report)
