"""Sim waits and copies as an H100 does, for each operator of PyTorch's own database."""

import warnings
from pathlib import Path

import pytest

from tests.sim.conformance.database import MOST

from .operators import DIFFERING, SAMPLES, compare, read, row_of

pytest.importorskip("expecttest", reason="PyTorch's database of operators needs expecttest")
COUNTED = read(Path("assets/effects/nvidia-h100-80gb-hbm3-operators.json"))
pytestmark = [pytest.mark.sim, pytest.mark.deep(16)]


@pytest.fixture
def as_many_samples():
    MOST[0], before = SAMPLES, MOST[0]
    yield
    MOST[0] = before


@pytest.mark.deep(4)
@pytest.mark.parametrize("name", sorted(COUNTED.keys() - DIFFERING))
@pytest.mark.usefixtures("as_many_samples")
def test_an_operator_waits_and_copies_as_on_a_gpu(name, accelerator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here = {name: row_of(name, accelerator)}
    differing, _ = compare(here, COUNTED)
    assert not differing
