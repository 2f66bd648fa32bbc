"""The layers are kept, and the tool that checks them catches a violation of each rule."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup.import_graph import LAYERS

pytest.importorskip("importlinter", reason="import-linter is not installed here")

ROOT = Path(__file__).parents[2]
PACKAGES = ("debubble", "solutions", "katas", "tests")


def test_the_layers_hold():
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("where", "imported", "broken_rule"),
    [
        ("debubble/timeline/instrument.py", "solutions.system", "The instruments know nothing"),
        ("debubble/timeline/instrument.py", "katas.system", "The instruments know nothing"),
        ("debubble/timeline/instrument.py", "debubble.views", "Each floor of the instruments"),
        ("debubble/cuda/instrument.py", "debubble.sim", "Each floor of the instruments"),
        ("debubble/gadget.py", "torch", "Each floor of the instruments"),
        ("katas/exercise.py", "solutions.system", "Katas never look at the solutions"),
        ("solutions/other.py", "debubble", "Solutions run on an accelerator"),
        ("solutions/other.py", "debubble.timeline", "Solutions run on an accelerator"),
        ("debubble/sim/memory.py", "debubble.sim.tensor", "Each room of sim"),
        ("solutions/engine.py", "solutions.models", "The engine knows nothing of models"),
        ("debubble/sim/garret.py", "torch", "Each room of sim"),
    ],
)
def test_a_violation_is_caught(small_project, where, imported, broken_rule):
    (small_project / where).write_text(f"import {imported}\n")
    result = lint_imports(small_project)
    assert result.returncode == 1
    assert broken_rule in result.stdout
    assert "1 broken" in result.stdout


def test_what_is_allowed_passes(small_project):
    (small_project / "solutions/other.py").write_text("from debubble.accelerator import launch\n")
    (small_project / "katas/exercise.py").write_text("import debubble\n")
    result = lint_imports(small_project)
    assert result.returncode == 0, result.stdout


@pytest.fixture
def small_project(tmp_path):
    """Returns a project with our rules of layers and with empty packages, to which a test adds
    imports. Rules that allow an import don't fail if it is missing."""
    rules = (ROOT / "pyproject.toml").read_text()
    unmatched = "unmatched_ignore_imports_alerting"
    (tmp_path / "pyproject.toml").write_text(
        rules.replace(f'{unmatched} = "error"', f'{unmatched} = "none"')
    )
    floors = (
        f"debubble/{name}" for names in LAYERS["layers"] for name in re.split(" [:|] ", names)
    )
    for package in (*PACKAGES, *floors, "solutions/system"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    for module in ("katas/system.py", "debubble/sim/tensor.py", "solutions/models.py"):
        (tmp_path / module).touch()
    return tmp_path


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = (
        "from importlinter.cli import lint_imports as run; raise SystemExit(run(no_cache=True))"
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
