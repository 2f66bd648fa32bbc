"""Sim's counts match the H200: a decode step of 12 layers, in all variants."""

import json

import pytest

from debubble.assets import ASSETS
from solutions.flex_graph.measure.decode_step import FlexWorkload, Variants
from solutions.flex_graph.step import VARIANTS
from solutions.measure.benchmark import record_step

MEASURED = json.loads((ASSETS / "benchmarks" / "nvidia-h200" / "flex_graph.json").read_text())
ON_THE_DEVICE = ("kernels", "d2d")
"""The counts in which sim may differ from a GPU: a library can split a product into several
kernels, and a graph can copy a few numbers by a kernel. On sim a product is one kernel."""

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def steps(accelerator):
    return Variants(FlexWorkload.narrow(), accelerator).steps()


@pytest.mark.deep(2)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_modelled_step_has_the_counts_of_the_measured_one(accelerator, steps, variant):
    step = steps[variant]()
    step()
    modelled = record_step(accelerator, step).counts()
    measured = dict(MEASURED["presets"]["narrow"]["steps"]["decode"][variant]["counts"])
    modelled_work, measured_work = (
        sum(counts.pop(name) for name in ON_THE_DEVICE) for counts in (modelled, measured)
    )
    assert modelled == measured
    products = 4 * FlexWorkload.narrow().num_layers + 1
    assert modelled_work <= measured_work <= modelled_work + products
