"""Sim's modelled times match the H200: a prefill step of 48 layers and 16 requests with images."""

import json

import pytest

from debubble.assets import ASSETS
from solutions.measure.benchmark import record_step
from solutions.pinned_h2d import Engine, StepConfig

pytestmark = pytest.mark.sim

TOLERANCE = 0.25
MEASURED = ASSETS / "benchmarks" / "nvidia-h200" / "pinned_h2d.json"


@pytest.mark.parametrize("variant", ["before", "after"])
def test_the_modelled_step_has_the_counts_and_about_the_time_of_the_measured_one(
    accelerator, variant, only_launched
):
    modelled = record_step(
        accelerator, Engine(StepConfig.small(), accelerator.device, variant).prefill
    )
    presets = json.loads(MEASURED.read_text())["presets"]
    measured = presets["small"]["steps"]["prefill"][variant]
    assert modelled.counts() == measured["counts"]
    time = modelled.device_span(ignore_sleep=True)
    assert time == pytest.approx(measured["device_us"], rel=TOLERANCE)
