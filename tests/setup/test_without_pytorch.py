"""A sentence says so if PyTorch is missing, too old, broken or a different file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from debubble.commands import doctor
from debubble.contract.packages.pytorch import INSTALL, SEEN, newer_than_seen

from .installed import Installed

ROOT = Path(__file__).parents[2]
RECORDING = min((ROOT / "assets/timelines").rglob("*.json"), key=lambda path: path.stat().st_size)
LACKED = (
    "torch",
    "triton",
    "matplotlib",
    "IPython",
    "ipywidgets",
    "anywidget",
    "pytest",
    "tornado",
)
"""The modules that debubble imports and the base install lacks."""
WITHOUT = f"""
import sys
for name in {LACKED!r}:
    sys.modules[name] = None
"""
MODULES = """
import importlib, json, pkgutil
import debubble
found = {}
for module in pkgutil.walk_packages(debubble.__path__, "debubble.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        found[module.name] = [type(error).__name__, str(error), error.name]
print(json.dumps(found))
"""
NAMES = """
import importlib, json
found = {}
for package in ("debubble", "debubble.recording", "debubble.detector", "debubble.timeline"):
    module = importlib.import_module(package)
    for name in module.__all__:
        try:
            getattr(module, name)
        except ImportError as error:
            found[f"{package}.{name}"] = [type(error).__name__, str(error)]
import debubble
try:
    with debubble.find_host_syncs():
        pass
except ImportError as error:
    found["calling find_host_syncs"] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""
COMMANDS = """
import json, os
import typer
from typer.testing import CliRunner
from debubble.cli import app

FILLED = {
    "trace": [sys.argv[1]], "syncs": ["x.py"], "lesson": ["gdn"], "board": ["."],
    "new-kata": ["two words"],
}
found = {}
for name in typer.main.get_command(app).commands:
    for arguments in ([*FILLED.get(name, ())], ["--help"]):
        run = CliRunner().invoke(app, [name, *arguments], input="")
        error = None if isinstance(run.exception, (SystemExit, type(None))) else repr(run.exception)
        found[" ".join([name, *arguments[-1:]])] = [run.exit_code, run.output, error]
print(json.dumps(found))
"""


def python(*arguments: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    ours = ("DEBUBBLE_", "PYTEST", "PYTHONPATH")
    around = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    variables["PYTHONPATH"] = os.pathsep.join(
        filter(None, [variables.get("PYTHONPATH"), str(ROOT)])
    )
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=around | variables, capture_output=True, text=True, check=False
    )


def found(program: str, *arguments: str, **about) -> dict[str, list]:
    run = python("-c", WITHOUT + program, *arguments, **about)
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


def test_a_module_is_imported_without_pytorch_or_says_what_it_needs():
    refused = found(MODULES)
    assert "debubble.accelerator" in refused and "debubble.timeline" not in refused
    for module, (kind, text, name) in refused.items():
        if kind == "PyTorchNeeded":
            assert text.endswith(f"needs PyTorch, which is not installed: {INSTALL}"), module
        else:
            assert name.partition(".")[0] in {*LACKED} - {"torch", "triton"}, (module, text)


def test_a_public_name_without_pytorch_works_or_says_what_it_needs():
    refused = found(NAMES)
    usable = {"debubble.Timeline", "debubble.SyncReport", "debubble.find_host_syncs"}
    assert refused and not usable & {*refused}
    calling = refused.pop("calling find_host_syncs")
    assert calling == ["PyTorchNeeded", f"debubble.accelerator needs PyTorch, which is not "
                       f"installed: {INSTALL}"]  # fmt: skip
    for name, (kind, text) in refused.items():
        assert kind == "PyTorchNeeded"
        assert text == f"{name} needs PyTorch, which is not installed: {INSTALL}"


def test_a_command_without_pytorch_works_or_says_what_it_needs(tmp_path):
    around = {"DEBUBBLE_WORKSPACE": str(tmp_path / "my"), "EDITOR": "true"}
    ran = found(COMMANDS, str(RECORDING), **around)
    for command, (status, output, error) in ran.items():
        assert error is None and status in (0, 2), (command, status, output, error)
        assert "Traceback" not in output
        if status == 2 and not command.startswith("doctor"):
            sentences = output.removeprefix("Getting ready …\n")
            assert len(sentences.splitlines()) == 1, (command, output)
    needs = f"needs PyTorch, which is not installed: {INSTALL}\n"
    for command in ("syncs x.py", "calibrate", "check"):
        assert ran[command][:2] == [2, f"`debubble {command.split()[0]}` {needs}"]
    assert "idle for" in ran[f"trace {RECORDING}"][1]
    assert f"accelerator    none: it {needs}" in ran["doctor"][1]


def test_a_suite_without_pytorch_runs_and_as_cuda_says_what_it_needs(tmp_path):
    (tmp_path / "test_theirs.py").write_text(THEIR_SUITE)
    plugin = ("-p", "debubble_pytest", "-p", "no:cacheprovider")
    without = "import sys, pytest; sys.modules['torch'] = None; sys.exit(pytest.main(sys.argv[1:]))"
    needs = f"needs PyTorch, which is not installed: {INSTALL}"
    plain = python("-c", without, *plugin, cwd=tmp_path)
    assert "1 failed, 1 passed" in plain.stdout, plain.stdout + plain.stderr
    assert f"the marker no_host_syncs: debubble.no_host_syncs {needs}" in plain.stdout
    as_cuda = python("-c", without, *plugin, "--as-cuda", cwd=tmp_path)
    assert as_cuda.returncode == 4
    assert as_cuda.stderr == f"ERROR: --as-cuda: debubble.as_cuda {needs}\n\n"


THEIR_SUITE = """
import pytest

def test_theirs():
    pass

@pytest.mark.no_host_syncs
def test_marked():
    pass
"""
FAKES = {
    "old": (
        {"torch/__init__.py": "__version__, Tensor = '2.6.0+cpu', object", "torch/version.py": ""},
        "PyTorch 2.11 or newer, and 2.6.0+cpu is installed here: ",
    ),
    "file": ({"torch.py": "x = 1"}, "PyTorch, and Python finds {folder}/torch.py instead: "),
    "folder": (
        {"torch/__init__.py": "x = 1"},
        "PyTorch, and Python finds {folder}/torch/__init__.py instead: ",
    ),
    "broken": (
        {"torch/__init__.py": "raise OSError('no libcudart.so.13')", "torch/version.py": ""},
        "PyTorch, and the one that is installed can't be imported (no libcudart.so.13): ",
    ),
}


@pytest.mark.deep(4)
@pytest.mark.parametrize(
    ("kind", "in_working_directory"),
    [("old", False), ("file", True), ("folder", False), ("broken", True)],
)
def test_what_is_found_in_place_of_a_usable_pytorch_is_said(tmp_path, kind, in_working_directory):
    files, reason = FAKES[kind]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    said = reason.format(folder=tmp_path)
    about = {"cwd": tmp_path} if in_working_directory else {"PYTHONPATH": str(tmp_path)}
    told = python("-m", "debubble", "doctor", **about)
    assert told.returncode == 2 and f"accelerator    none: it needs {said}" in told.stdout
    refused = python("-m", "debubble", "syncs", "--as-cuda", "x.py", **about)
    assert refused.stderr.startswith(f"`debubble syncs` needs {said}")
    assert refused.stderr.count("\n") == 1
    for first in ("", "import torch\n") if kind != "broken" else ("",):
        used = python("-c", f"{first}from debubble import record", **about)
        last = used.stderr.splitlines()[-1]
        assert last.startswith(
            f"debubble.contract.packages.pytorch.PyTorchNeeded: debubble.record needs {said}"
        )


def test_triton_is_imported_beside_a_pytorch_that_is_too_old(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("__version__, Tensor = '2.6.0', object")
    (tmp_path / "triton.py").write_text("print('theirs')")
    run = python("-c", "import debubble, triton", PYTHONPATH=str(tmp_path))
    assert (run.returncode, run.stdout) == (0, "theirs\n"), run.stderr


def test_a_newer_pytorch_than_any_seen_is_said_by_the_doctor_and_no_error(monkeypatch):
    assert [version for version in SEEN if newer_than_seen(version)] == []
    newer = SimpleNamespace(__version__="99.0.1+cu999")
    monkeypatch.setattr(doctor, "need_pytorch", lambda what: newer)
    assert doctor.torch() == (
        f"99.0.1+cu999, newer than {SEEN[-1]}, the newest that debubble was tested with"
    )


UV = os.environ.get("UV") or shutil.which("uv") or Path.home() / ".cache/debubble/uv/bin/uv"
THEIRS = """Metadata-Version: 2.1
Name: torch
Version: 2.6.0
"""


@pytest.mark.deep
@pytest.mark.skipif(
    not Path(UV).exists(), reason="uv is not here, which makes environments in seconds"
)
def test_the_wheel_in_an_empty_environment_is_small_and_leaves_a_torch_alone(tmp_path):
    pytest.importorskip("setuptools", minversion="77", reason="nothing can be built without it")
    wheel = Installed(tmp_path).wheel
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    (tmp_path / "pins.txt").write_text("\n".join(pin for pin in pins if "torch" not in pin))
    venv = tmp_path / "empty"
    about = {"check": True, "capture_output": True, "text": True}
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, venv], **about)
    install = [UV, "pip", "install", "-q", "--python", venv / "bin/python"]
    install += ["--constraint", tmp_path / "pins.txt"]
    reachable = subprocess.run([*install, "--dry-run", "rich"], capture_output=True, check=False)
    if reachable.returncode:
        pytest.skip("no index of packages answers here")
    subprocess.run([*install, wheel], **about)
    (packages,) = venv.glob("lib/*/site-packages")
    assert sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) < 150e6
    assert not [*packages.glob("torch*"), *packages.glob("triton*")]
    command = [venv / "bin/debubble", "trace", RECORDING]
    assert "idle for" in subprocess.run(command, cwd=tmp_path, **about).stdout
    (packages / "torch-2.6.0.dist-info").mkdir()
    (packages / "torch-2.6.0.dist-info/METADATA").write_text(THEIRS)
    (packages / "torch-2.6.0.dist-info/RECORD").write_text("torch-2.6.0.dist-info/METADATA,,\n")
    for extra in ("torch", "lab", "models"):
        subprocess.run([*install, f"{wheel}[{extra}]"], **about)
        assert [path.name for path in packages.glob("torch-*")] == ["torch-2.6.0.dist-info"], extra


def test_the_versions_that_were_seen_are_those_of_the_guide():
    page = (ROOT / "docs/machines.md").read_text()
    rows = re.findall(r"^\| ([\d.]+)[^|]* \| \S+ \| 3\.[\d.]+ \| \d+ of", page, re.MULTILINE)
    assert sorted(rows) == list(SEEN)
