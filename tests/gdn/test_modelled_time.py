"""What sim models is what the H200 did: a prefill step of 24 layers, in all four variants."""

import json

import pytest

from debubble.assets import ASSETS
from solutions.benchmark import record_step
from solutions.gdn.bench import Workload, steps
from solutions.gdn.step import VARIANTS

TOLERANCE = 0.25
MEASURED = ASSETS / "benchmarks" / "nvidia-h200" / "gdn.json"

pytestmark = [
    pytest.mark.sim,
    pytest.mark.skipif(
        not MEASURED.exists(), reason=f"no GPU has measured it yet: {MEASURED.name} is not there"
    ),
]


@pytest.fixture(scope="module")
def variants(accelerator):
    return steps(Workload.small(), accelerator)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_modelled_step_has_the_counts_and_about_the_time_of_the_measured_one(
    accelerator, variants, variant
):
    modelled = record_step(accelerator, variants[variant]())
    presets = json.loads(MEASURED.read_text())["presets"]
    measured = presets["small"]["steps"]["prefill"][variant]
    assert modelled.counts() == measured["counts"]
    time = modelled.device_span(ignore_sleep=True)
    assert time == pytest.approx(measured["device_us"], rel=TOLERANCE)
