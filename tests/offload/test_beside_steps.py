"""The slowdown of steps by loads beside them is measured on a GPU, and never made up."""

import io
import json

import pytest
from rich.console import Console

from solutions.offload.measure import beside_steps, grid

SMALL = {
    beside_steps: {"LAYERS": 1, "COUNT": 64, "HIDDEN": 256, "MLP": 512, "QKV": 384, "MEMORY": 0},
    grid: {"MEMORY": 1 << 24},
}


@pytest.mark.sim
def test_a_modelled_gpu_measures_nothing(accelerator, tmp_path):
    printed = io.StringIO()
    beside_steps.report_beside_steps(accelerator, Console(file=printed), tmp_path)
    assert "on a GPU" in printed.getvalue()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="real GPU"):
        beside_steps.measure_beside_steps(accelerator)


@pytest.mark.gpu
def test_each_way_has_its_steps_and_its_loads(accelerator, tmp_path, monkeypatch):
    for module, names in SMALL.items():
        for name, number in names.items():
            monkeypatch.setattr(module, name, number)
    beside_steps.report_beside_steps(accelerator, Console(file=io.StringIO()), tmp_path, rounds=1)
    record = json.loads((tmp_path / "offload_beside_steps.json").read_text())
    programs = {f"{number} programs" for number in beside_steps.PROGRAMS}
    assert set(record["ways"]) == {"dma", "one copy"} | programs
    assert record["step_us"] > 0
    assert all(figure > 0 for way in record["ways"].values() for figure in way.values())


@pytest.mark.gpu
def test_what_does_not_fit_is_said(accelerator, tmp_path, monkeypatch):
    monkeypatch.setattr(beside_steps, "LAYERS", 10_000)
    printed = io.StringIO()
    beside_steps.report_beside_steps(accelerator, Console(file=printed, width=100), tmp_path)
    assert "GB of the GPU's memory" in printed.getvalue()
    assert list(tmp_path.iterdir()) == []
