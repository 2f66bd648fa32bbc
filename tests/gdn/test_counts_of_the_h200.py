"""Sim's counts match the H200: a prefill step of 24 layers, in all four variants."""

import json

import pytest

from debubble.assets import ASSETS
from solutions.gdn.measure.prefill_step import GDNWorkload, steps
from solutions.gdn.step import VARIANTS
from solutions.measure.benchmark import record_step

MEASURED = json.loads((ASSETS / "benchmarks" / "nvidia-h200" / "gdn.json").read_text())

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def variants(accelerator):
    return steps(GDNWorkload.small(), accelerator)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_modelled_step_has_the_counts_of_the_measured_one(
    accelerator, variants, variant, only_launched
):
    modelled = record_step(accelerator, variants[variant]())
    assert modelled.counts() == MEASURED["presets"]["small"]["steps"]["prefill"][variant]["counts"]
