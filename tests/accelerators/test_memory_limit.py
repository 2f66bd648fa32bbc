"""DEBUBBLE_GPU_MEMORY: the memory that a process may take of a shared GPU."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from debubble.cuda.memory_limit import limit_in_gib, limit_memory

DEVICE = torch.device("cuda", 1)


@pytest.fixture
def variable(monkeypatch):
    return lambda text: monkeypatch.setenv("DEBUBBLE_GPU_MEMORY", text)


@pytest.fixture
def set_fractions(monkeypatch):
    """Pretends that there is a GPU of 80 GiB. Returns a list of the (fraction, device) pairs that
    are passed to PyTorch as memory limits."""
    told = []
    properties = SimpleNamespace(total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda *given: told.append(given)
    )
    return told


@pytest.mark.parametrize(
    ("text", "gib"), [("1.5", 1.5), ("40", 40.0), (" 2 ", 2.0), ("1e-3", 1e-3)]
)
def test_a_limit_is_a_number_of_gib(variable, text, gib):
    variable(text)
    assert limit_in_gib() == gib


def test_without_the_variable_or_with_an_empty_one_there_is_no_limit(variable, monkeypatch):
    variable("")
    assert limit_in_gib() is None
    monkeypatch.delenv("DEBUBBLE_GPU_MEMORY")
    assert limit_in_gib() is None


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "-1", "-inf", "0", "much", "1.5 GiB", " "])
def test_what_is_no_limit_is_said_with_what_one_looks_like(variable, set_fractions, text):
    variable(text)
    with pytest.raises(ValueError) as refused:
        limit_memory(DEVICE)
    assert str(refused.value) == (
        f"DEBUBBLE_GPU_MEMORY {text!r} is no limit: it takes GiB above 0, such as 1.5"
    )
    assert not set_fractions


@pytest.mark.parametrize(("text", "fraction"), [("20", 0.25), ("80", 1.0), ("1000", 1.0)])
def test_pytorch_is_told_the_part_of_this_gpu(variable, set_fractions, text, fraction):
    variable(text)
    limit_memory(DEVICE)
    assert set_fractions == [(fraction, DEVICE)]
    assert type(set_fractions[0][0]) is float


def test_without_a_limit_pytorch_is_told_nothing(monkeypatch, set_fractions):
    monkeypatch.delenv("DEBUBBLE_GPU_MEMORY", raising=False)
    limit_memory(DEVICE)
    assert not set_fractions


@pytest.mark.deep
@pytest.mark.sim
def test_on_sim_it_is_ignored():
    assert (
        run("sim", "x = torch.ones(4, device=gpu.device); print(x.sum().item())", "much") == "4.0"
    )


@pytest.mark.gpu
def test_a_gpu_is_full_at_the_limit_and_runs_on_below_it():
    program = """
try:
    torch.empty(1 << 30, dtype=torch.uint8, device=gpu.device)
except torch.OutOfMemoryError:
    print("full,", torch.ones(1 << 20, device=gpu.device).sum().item())
"""
    assert run("cuda", program, "0.5") == "full, 1048576.0"


def run(device: str, program: str, limit: str) -> str:
    """Runs the program in a process of its own with DEBUBBLE_GPU_MEMORY=`limit`, and returns its
    output."""
    program = f"import torch, debubble\ngpu = debubble.accelerator()\n{program}"
    environment = {**os.environ, "DEBUBBLE_GPU_MEMORY": limit, "DEBUBBLE_DEVICE": device}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()
