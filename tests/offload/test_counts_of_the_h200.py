"""Sim's counts match the H200: both variants load a prefix."""

import json

import pytest

from debubble.assets import ASSETS
from solutions.measure.benchmark import record_step
from solutions.offload.bench import VARIANTS
from solutions.offload.choice.crossover import Crossover
from solutions.offload.serving_loop.config import ServingConfig
from solutions.offload.serving_loop.serving import Server

MEASURED = json.loads((ASSETS / "benchmarks" / "nvidia-h200" / "offload.json").read_text())

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def server(accelerator):
    return Server(ServingConfig.tiny(), accelerator.device)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_modelled_load_has_the_counts_of_the_measured_one(
    accelerator, server, variant, monkeypatch
):
    """Sim counts what the H200 counted, by the path that was the faster one on that day."""
    measured = MEASURED["presets"]["narrow"]["steps"]["load"][variant]["counts"]
    path = "dma" if measured["h2d_pinned"] else "kernel"
    monkeypatch.setattr(Crossover, "best", lambda self, nbytes, count: path)
    load = VARIANTS[variant](server.groups)
    server.load_one(load)
    modelled = record_step(accelerator, lambda: server.load_one(load)).counts()
    assert modelled == measured
