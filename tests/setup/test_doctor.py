"""`debubble doctor`: a dozen lines that say what this machine is and what is modelled."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

import debubble
from debubble.commands import doctor as command
from debubble.commands.doctor import doctor

APP = typer.Typer()
APP.command()(doctor)


def test_it_says_which_accelerator_this_is_and_whether_times_are_modelled(accelerator):
    result = CliRunner().invoke(APP)
    assert result.exit_code == 0
    lines = dict(line.split(maxsplit=1) for line in result.output.splitlines())
    assert lines["accelerator"] == accelerator.description
    assert lines["times"].startswith("modelled" if accelerator.modelled else "measured")
    assert lines["Triton"].endswith(
        "interpreted on the CPU" if accelerator.modelled else "compiled"
    )
    assert len(lines) <= 14


@pytest.mark.parametrize(
    ("has_batch", "version", "said"),
    [
        (True, "13.3.1", "yes, by cuda-bindings 13.3.1"),
        (False, None, "not installed: copies go one at a time"),
        (False, "12.6.0", "cuda-bindings 12.6.0, or the driver, is too old: copies go one at"),
    ],
)
def test_it_says_whether_a_gpu_takes_a_batch_of_copies(monkeypatch, has_batch, version, said):
    gpu = SimpleNamespace(modelled=False, has_copy_batch=has_batch)
    monkeypatch.setattr(command, "installed", {"cuda-bindings": version}.get)
    assert command.batch_copies(gpu).startswith(said)


def test_an_accelerator_that_is_not_there_is_said_and_the_rest_still_shown(monkeypatch):
    def none_there(name):
        raise RuntimeError("DEBUBBLE_DEVICE=cuda, but torch finds no CUDA GPU")

    monkeypatch.setattr(debubble, "accelerator", none_there)
    result = CliRunner().invoke(APP)
    assert result.exit_code == 2
    assert "accelerator    none: DEBUBBLE_DEVICE=cuda, but torch finds no CUDA GPU" in result.output
    assert "torch" in result.output


def test_a_wrong_device_in_the_environment_stops_no_import():
    environment = {**os.environ, "DEBUBBLE_DEVICE": "tpu"}
    command = [sys.executable, "-m", "debubble.cli", "doctor"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and not result.stderr
    assert "none: DEBUBBLE_DEVICE 'tpu' is unknown: choose one of auto, cuda" in result.stdout
