"""`debubble doctor`: a dozen lines about this machine and about what is modelled."""

import os
import subprocess
import sys
import warnings
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
import torch
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
    assert len(lines) <= 15


@pytest.mark.parametrize(
    ("has_batch", "said"), [(True, "yes"), (False, "the driver is older than CUDA 12.8: copies go")]
)
def test_it_says_whether_a_gpu_takes_a_batch_of_copies(has_batch, said):
    gpu = SimpleNamespace(modelled=False, has_copy_batch=has_batch)
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
    command = [sys.executable, "-m", "debubble", "doctor"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 2 and not result.stderr
    assert "none: DEBUBBLE_DEVICE 'tpu' is unknown: choose one of auto, cuda" in result.stdout


GPU = SimpleNamespace(modelled=False, description="NVIDIA A10G")


@pytest.fixture
def unknown_gpu(monkeypatch, tmp_path):
    """Makes the current GPU one that has no shipped constants and whose user measured none."""
    monkeypatch.delenv("DEBUBBLE_CALIBRATION", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_it_says_what_of_a_gpu_is_not_measured_whose_figures_are_used_and_what_measures_them(
    unknown_gpu,
):
    with warnings.catch_warnings(action="error"):
        said = command.calibrations(GPU)
    assert said == {
        "sim's times": "modelled on NVIDIA H200, not on this GPU: "
        "`debubble calibrate --only cost` measures it",
        "crossover": "not measured on this GPU: NVIDIA H200's is used, "
        "`debubble calibrate --only crossover` measures it",
    }


@pytest.mark.parametrize(
    ("gpu", "variable", "said"),
    [
        ("NVIDIA H200", "", "modelled on this GPU"),
        (
            "NVIDIA H100 80GB HBM3",
            "",
            "modelled on NVIDIA H200; DEBUBBLE_CALIBRATION=nvidia-h100-80gb-hbm3 models them on "
            "this GPU",
        ),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3", "modelled on this GPU"),
        (
            "NVIDIA A10G",
            "nvidia-h100-80gb-hbm3",
            "modelled on NVIDIA H100 80GB HBM3, not on this GPU: "
            "`debubble calibrate --only cost` measures it",
        ),
        ("NVIDIA A10G", "absent", "none: no calibration for 'absent' at "),
    ],
)
def test_it_says_on_which_gpu_sims_times_are_modelled(monkeypatch, gpu, variable, said):
    monkeypatch.setenv("DEBUBBLE_CALIBRATION", variable)
    assert command.sims_times(gpu).startswith(said)


@pytest.mark.parametrize("gpu", ["NVIDIA H200", "NVIDIA H100 80GB HBM3"])
def test_of_a_gpu_that_was_measured_for_everyone_nothing_is_missing(unknown_gpu, gpu):
    said = command.calibrations(SimpleNamespace(modelled=False, description=gpu))
    assert said["crossover"] == "measured on this GPU"


def test_a_part_that_can_not_be_asked_is_named_and_the_rest_still_shown(monkeypatch):
    point = EntryPoint("swap", "no_such_module:used_for", command.CALIBRATED)
    monkeypatch.setattr(command, "registered", lambda group: {"swap": point})
    assert command.calibrations(GPU)["swap"] == (
        "no_such_module:used_for can't be asked: ModuleNotFoundError: "
        "No module named 'no_such_module'"
    )


def test_of_sim_there_is_nothing_to_calibrate():
    assert command.calibrations(SimpleNamespace(modelled=True)) == {}


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (None, "NVIDIA H100, 80 GiB"),
        (1.5, "NVIDIA H100, 80 GiB, of which this process may use 1.5"),
        (200.0, "NVIDIA H100, 80 GiB"),
    ],
)
def test_it_says_how_much_of_the_gpu_this_process_may_use(monkeypatch, limit, said):
    properties = SimpleNamespace(name="NVIDIA H100", total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert command.gpu(limit) == said


@pytest.fixture
def two_nodes(tmp_path):
    """Returns a /sys of a machine with processors 0-3 and 8 on node 0, 4-7 on node 1, and a GPU
    there."""
    for node, cpus in ((0, "0-3,8\n"), (1, "4-7\n")):
        (tmp_path / f"devices/system/node/node{node}").mkdir(parents=True)
        (tmp_path / f"devices/system/node/node{node}/cpulist").write_text(cpus)
    (tmp_path / "bus/pci/devices/0000:17:00.0").mkdir(parents=True)
    (tmp_path / "bus/pci/devices/0000:17:00.0/numa_node").write_text("1\n")
    return tmp_path


@pytest.mark.parametrize(
    "cpus, said",
    [
        ({4, 5}, "this process may run on 1"),
        ({8}, "this process may run on 0: copies are faster with `numactl --cpunodebind=1"),
        ({3, 4}, "this process may run on 0 and 1: copies are faster"),
        (set(), "this process may run on unknown: copies are faster"),
    ],
)
def test_it_names_the_memory_nodes_of_the_gpu_and_the_process(two_nodes, cpus, said):
    (line,) = command.numa("0000:17:00.0", cpus, two_nodes).values()
    assert said in line and line.startswith("the GPU is on node 1")
    assert ("numactl" in line) == (cpus != {4, 5})


def test_it_says_nothing_of_memory_nodes_where_there_is_one_or_none_is_told(two_nodes):
    assert command.numa("", {4}, two_nodes) == {}
    assert command.numa("0000:99:00.0", {4}, two_nodes) == {}
    (two_nodes / "bus/pci/devices/0000:17:00.0/numa_node").write_text("-1\n")
    assert command.numa("0000:17:00.0", {4}, two_nodes) == {}
