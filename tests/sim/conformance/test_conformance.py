"""Runs the operators of PyTorch's database, in `make test-deep` alone: importing them is slow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .checks import CHECKS
from .running import Finding
from .table import unknown

pytestmark = pytest.mark.sim
HANDFUL = ("acos", "matmul", "native_dropout_backward", "trace")
PARTS = 24


def findings(path: Path, *options: str) -> list[Finding]:
    """Runs the conformance command in a new process, since a process that ran a backward pass can't
    fork any more, and returns its findings."""
    pytest.importorskip("expecttest", reason="PyTorch's database of operators needs expecttest")
    command = [sys.executable, "-m", "tests.sim.conformance", *options, "--output", str(path)]
    subprocess.run(command, cwd=Path(__file__).parents[3], check=True, capture_output=True)
    return [Finding(*json.loads(line)) for line in path.read_text().splitlines()]


@pytest.mark.deep
def test_each_type_of_cuda_is_right_and_no_other_is_taken(accelerator, tmp_path):
    found = findings(tmp_path / "found", *HANDFUL, "--samples", "2")
    assert {finding.kind for finding in found} == {*CHECKS}
    assert {finding.outcome for finding in found} == {"right"}, found


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_not_right_stands_in_the_table(accelerator, tmp_path, part):
    options = ("--slice", f"{part}/{PARTS}", "--samples", "1", "--kinds", "forward,refusals")
    found = findings(tmp_path / "found", *options)
    assert found and not unknown(found)
