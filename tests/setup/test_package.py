"""The package of `pip install debubble`: the instruments, which need no checkout and disturb no
program."""

from __future__ import annotations

import json
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from .installed import ROOT, Installed

pytest.importorskip("setuptools", minversion="77", reason="nothing can be built without it")

OF_A_CHECKOUT = ("assets", "chapters", "docs", "katas", "scripts", "solutions", "tests")

COUNTS = """
import json, sys
import debubble

sim = debubble.accelerator("sim")

import torch

with debubble.record(sim) as timeline:
    x = torch.ones(64, 64).to(sim.device)
    (x @ x).sum().item()
print(json.dumps([debubble.__file__, timeline.counts()]))
"""
IN_A_NOTEBOOK = """
from debubble.views import showing
timeline.show()
showing.in_notebook = lambda: True
timeline.show()
print(timeline._repr_mimebundle_())
print({"matplotlib", "anywidget", "ipywidgets", "pytest"} & sys.modules.keys())
"""
WAITS = """
import sys
import torch
import debubble
print(debubble.record, sys.argv[1])
x = torch.ones(4, device=debubble.accelerator().device)
x.sum().item()
"""
FOREIGN_CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--device", default="theirs")

@pytest.fixture
def accelerator(request):
    return request.config.getoption("--device")
"""
FOREIGN_TESTS = """
import os, sys
import pytest

def test_nothing_was_imported(accelerator):
    assert accelerator == "theirs"
    assert not {"torch", "numpy", "debubble"} & sys.modules.keys()
    assert "TRITON_INTERPRET" not in os.environ
"""
MARKED_TESTS = """
import pytest

@pytest.mark.no_host_syncs
def test_waits():
    import debubble, torch
    torch.ones(4, device=debubble.accelerator("sim").device).sum().item()

@pytest.mark.no_host_syncs
def test_waits_not():
    import debubble, torch
    torch.ones(4, device=debubble.accelerator("sim").device).sum()
"""
QUICKLY = """
import sys
from debubble.cli import app
try:
    app()
finally:
    assert not {"torch", "numpy"} & sys.modules.keys()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def with_pytest(installed) -> Installed:
    installed.add("pytest")
    return installed


def test_the_source_distribution_is_a_checkout(installed):
    listed = subprocess.run(
        ["git", "ls-files", *OF_A_CHECKOUT, "Makefile", "conftest.py", "constraints.txt"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is no clone, so there is no list of what belongs to it")
    tracked = [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    assert [name for name in tracked if not (installed.source / name).is_file()] == []


def test_the_wheel_is_the_instruments_and_the_calibrations(installed):
    with zipfile.ZipFile(installed.wheel) as archive:
        files = [name for name in archive.namelist() if ".dist-info/" not in name]
        found = {name: archive.read(name) for name in files if name.endswith(".json")}
    assert "debubble/py.typed" in files, "users who install it would have none of its types"
    assert {name.partition("/")[0] for name in files} == {"debubble", "debubble_pytest.py"}
    calibrations = ROOT / "assets/calibration"
    data = [*(ROOT / "debubble").rglob("*.js"), *(ROOT / "debubble").rglob("*.py")]
    assert {path.relative_to(ROOT).as_posix() for path in data} <= {*files}
    own = {path.relative_to(ROOT): path for path in (ROOT / "debubble").rglob("*.json")}
    own |= {
        Path("debubble/calibration") / path.relative_to(calibrations): path
        for path in calibrations.rglob("*.json")
    }
    assert found == {name.as_posix(): path.read_bytes() for name, path in own.items()}


def test_it_asks_for_little(installed):
    of_torch = ("torch", "numpy", "triton", "nvidia-", "cuda-")
    others = [name for name in installed.needs if not name.startswith(of_torch)]
    assert len(others) <= 30, others


@pytest.mark.sim
def test_sim_counts_as_in_the_checkout_and_without_the_lab_a_sentence_names_it(installed, capsys):
    run = installed.run("-c", COUNTS + IN_A_NOTEBOOK)
    assert run.returncode == 0, run.stderr
    (file, counts), *shown = json.loads(run.stdout.splitlines()[0]), *run.stdout.splitlines()[1:]
    assert file.startswith(str(installed.packages))
    exec(COUNTS, {})
    assert json.loads(capsys.readouterr().out)[1] == counts
    assert "modelled on NVIDIA H200" in run.stdout
    sentence = "The live timeline needs anywidget, which is not installed: "
    assert shown.count(f"{sentence}pip install 'debubble[lab]'") == 2
    assert shown[-1] == "set()"


@pytest.mark.deep
def test_a_script_is_watched_beside_a_folder_of_our_name(installed, tmp_path):
    (tmp_path / "debubble").mkdir()
    (tmp_path / "debubble" / "__init__.py").write_text("raise ImportError('not this one')")
    (script := tmp_path / "script.py").write_text(WAITS)
    command = ("-m", "debubble", "syncs", "--check", "--device", "sim", str(script), "--mine")
    run = installed.run(*command)
    assert "<function record at " in run.stdout and "--mine" in run.stdout, run.stderr
    assert run.returncode == 1 and "script.py:7" in run.stdout


def test_the_doctor_needs_no_checkout(installed):
    run = installed.run("-m", "debubble", "doctor", DEBUBBLE_DEVICE="sim")
    assert run.returncode == 0, run.stderr
    assert "sim, modelled on NVIDIA H200" in run.stdout


@pytest.mark.parametrize("command", [["hint", "x"], ["reset", "x"], ["check"]])
def test_without_a_checkout_the_workbooks_commands_are_refused(installed, command):
    run = installed.run("-m", "debubble", *command)
    assert (run.returncode, run.stdout) == (2, "")
    (sentence,) = run.stderr.splitlines()
    assert sentence.startswith("no katas/katas.toml at or above ")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["hint", "x"], ["reset", "x"]])
def test_what_needs_no_torch_does_not_import_it(installed, arguments):
    run = installed.run("-c", QUICKLY, *arguments)
    assert "AssertionError" not in run.stderr
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert arguments != ["--version"] or run.stdout == f"debubble {version}\n"


def test_a_suite_with_names_of_its_own_runs_as_ever(with_pytest, tmp_path):
    (tmp_path / "conftest.py").write_text(FOREIGN_CONFTEST)
    (tmp_path / "test_foreign.py").write_text(FOREIGN_TESTS)
    run = with_pytest.run("-m", "pytest", "-p", "no:cacheprovider", str(tmp_path))
    assert "1 passed" in run.stdout, run.stdout + run.stderr
    options = with_pytest.run("-m", "pytest", "--help", str(tmp_path)).stdout
    assert "--impl" not in options and "--time-limit" not in options


def test_the_marker_is_there(with_pytest, tmp_path):
    (tmp_path / "test_marked.py").write_text(MARKED_TESTS)
    strict = ("--strict-markers", "-p", "no:cacheprovider")
    run = with_pytest.run("-m", "pytest", *strict, str(tmp_path))
    assert "1 failed, 1 passed" in run.stdout, run.stdout + run.stderr
    assert "allow_host_sync" in run.stdout
