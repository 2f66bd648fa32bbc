"""A handful of operators of PyTorch's database; `python -m tests.sim.conformance` runs them all."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sim
HANDFUL = ("acos", "matmul", "native_dropout_backward", "trace")


def test_each_type_of_cuda_is_right_and_no_other_is_taken(accelerator):
    pytest.importorskip("expecttest", reason="PyTorch's database of operators needs expecttest")
    command = [sys.executable, "-m", "tests.sim.conformance", *HANDFUL, "--samples", "3"]
    root = Path(__file__).parents[3]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    outcomes = {word for word in ("wrong", "error", "accepted", "aborted") if word in run.stdout}
    assert "forward" in run.stdout and not outcomes, run.stdout
