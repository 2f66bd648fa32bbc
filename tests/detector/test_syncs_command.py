"""The command `debubble syncs SCRIPT`: its output, its files and its exit code."""

import json
import os
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from debubble import Timeline
from debubble.cli import app

LOOP = """
import sys
import debubble, torch

x = torch.ones(4, 4, device=debubble.accelerator().device)

def step(x):
    return x.sum().item()  # the wait

for _ in range(3):
    step(x)
with debubble.allow_host_sync():
    x.cpu()  # meant
"""
QUIET = """
import debubble, torch
x = torch.ones(4, 4, device=debubble.accelerator().device)
x + 1
"""


def test_it_lists_the_lines_that_wait(syncs, accelerator):
    result = syncs(LOOP)
    assert result.exit_code == 0
    (wait,) = [line for line in result.stdout.splitlines() if "# the wait" in line]
    assert wait.split()[4] == "3"
    assert "a value" in wait and "script.py:8" in wait
    assert "The host was held 3 times at one line" in result.stdout
    assert ("modelled" if accelerator.modelled else "measured") in result.stdout


def test_what_is_allowed_is_listed_apart(syncs):
    printed = syncs(LOOP).stdout
    allowed = printed.partition("Allowed:\n")[2]
    assert "# meant" in allowed and "# the wait" not in allowed


def test_a_script_that_never_waits_gets_one_clear_sentence(syncs):
    result = syncs(QUIET, "--check")
    assert result.exit_code == 0
    assert "No host syncs: the host never waited for the device" in result.stdout


def test_check_fails_where_a_wait_is_not_allowed(syncs):
    assert syncs(LOOP, "--check").exit_code == 1
    assert syncs(LOOP.replace("step(x)\nwith", "pass\nwith"), "--check").exit_code == 0


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_script_that_never_touches_the_device_is_no_success(syncs, accelerator, check):
    result = syncs("import torch; torch.ones(3).sum().item()", *check)
    assert result.exit_code == 2
    assert "Nothing ran on the device" in result.stdout
    if accelerator.modelled:
        assert "debubble syncs --as-cuda" in result.stderr


def test_the_script_finds_itself_as_python_would_run_it(syncs, tmp_path):
    (tmp_path / "beside.py").write_text("name = 'a module beside the script'")
    result = syncs(
        "import sys, beside\n"
        "print(__name__, sys.argv, beside.name, __file__)\n"
        "print(sys.modules['__main__'].beside.name)\n"
        "def f(x: undefined_without_future_annotations = 1): ...\n",
        of=("script.py", "train", "--check", "-v"),
    )
    path = tmp_path / "script.py"
    assert result.stdout.splitlines()[0] == (
        f"__main__ ['script.py', 'train', '--check', '-v'] a module beside the script {path}"
    )
    assert result.stdout.splitlines()[1] == "a module beside the script"
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1, "an annotation is looked up without `from __future__`"


def test_a_script_that_raises_is_reported_until_then(syncs):
    result = syncs(
        LOOP + "\ndef bad():\n    return x @ torch.ones(3, 3, device=x.device)\n\nbad()\n"
    )
    assert result.exit_code == 1
    assert "# the wait" in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "mat1 and mat2 shapes" in result.stderr
    frames = [line for line in lines if line.startswith('  File "')]
    assert len(frames) == 2
    assert all("script.py" in frame for frame in frames)


@pytest.mark.parametrize(
    ("ending", "status", "says"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no data')", 1, "no data\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_the_exit_status_is_the_scripts(syncs, ending, status, says):
    result = syncs(LOOP + ending)
    assert result.exit_code == status
    assert "# the wait" in result.stdout
    assert says in result.stderr


def test_the_scripts_own_failure_comes_before_check(syncs):
    assert syncs(LOOP + "sys.exit(3)", "--check").exit_code == 3


@pytest.mark.sim
@pytest.mark.skipif(torch.cuda.is_available(), reason="here the script finds its GPU")
@pytest.mark.parametrize(
    "line",
    [
        "import torch; torch.ones(3, device='cuda')",
        "raise AssertionError('Torch not compiled with CUDA enabled')",
        "raise RuntimeError('Found no NVIDIA driver on your system.')",
    ],
    ids=["this PyTorch", "one without CUDA", "one with CUDA"],
)
def test_a_script_for_cuda_is_told_what_to_do_on_sim(syncs, line):
    result = syncs(line)
    assert result.exit_code == 1
    assert "`debubble syncs --as-cuda` runs" in result.stderr


def test_the_findings_and_the_timeline_can_be_kept(syncs, tmp_path):
    result = syncs(LOOP + "\nimport os; os.chdir('/')", "--json", "found.json", "--save", "t.json")
    assert result.exit_code == 0
    (finding,) = json.loads((tmp_path / "found.json").read_text())["findings"]
    assert (finding["line"], finding["count"]) == (8, 3)
    assert finding["code"] == "return x.sum().item()  # the wait"
    events = Timeline.load(tmp_path / "t.json").events
    assert [event.allowed for event in events if event.kind == "sync"] == [False] * 3 + [True]


def test_a_limit_is_told_when_it_is_reached(syncs):
    result = syncs(LOOP, "--most-calls", "4")
    assert "The recording was full" in result.stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["missing.py"], "missing.py can't be read: No such file or directory."),
        (["."], ". is a directory: name a Python script in it."),
        (["torn.py"], "torn.py is not a Python script: '(' was never closed (line 2)."),
        (["binary.py"], "binary.py is not a Python script: "),
        (["--json", "nowhere/found.json", "good.py"], "can't be written: there is no directory"),
        (["--save", ".", "good.py"], "can't be written: it is a directory."),
    ],
)
def test_what_can_not_be_done_is_one_sentence_and_nothing_is_run(
    tmp_path, monkeypatch, options, says
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.py").write_text("open('it ran', 'w')")
    (tmp_path / "torn.py").write_text("x = 1\nprint((x)\n")
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\x00\x01\xff")
    result = CliRunner().invoke(app, ["syncs", *options])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "it ran").exists()


def test_it_works_as_a_command_of_its_own(tmp_path, accelerator):
    """`python -m debubble syncs --check` runs in a process of its own, without the tests' set-up:
    it exits with 1 and shows the wait."""
    script = tmp_path / "script.py"
    script.write_text(LOOP)
    command = [sys.executable, "-m", "debubble", "syncs", "--check", str(script)]
    environment = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "# the wait" in done.stdout
    assert "Traceback" not in done.stderr
