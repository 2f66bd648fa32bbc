"""The host-bound benchmark: its table, its record, and an older checkout beside this one."""

import json
import os

import pytest

from debubble.assets import ASSETS
from solutions.engine.pictures.dashboard import TABLES, TOKENS
from solutions.host_bound.measure import engine_steps, host_steps
from tests.scheduling import schedule_only
from tests.terminal import quick, test_the_table_stays_within_a_terminal  # noqa: F401

MEASURED = ASSETS / "benchmarks" / "nvidia-h200" / "host_bound.json"


@pytest.fixture(scope="module")
def run(accelerator, tmp_path_factory):
    """Returns (folder, printed text) of a quick run, with this checkout as the older one too, under
    a relative path."""
    here = os.path.relpath(engine_steps.ROOT)
    with pytest.MonkeyPatch.context() as patch, schedule_only(accelerator, TOKENS | TABLES):
        patch.setattr(host_steps, "STEPS_IN_A_ROW", 3)
        patch.setattr(engine_steps, "STEPS", 2)
        return quick(host_steps.main, tmp_path_factory.mktemp("bench"), "--against", here)


@pytest.mark.sim
def test_the_counts_are_those_measured_on_the_h200(run):
    modelled, measured = (
        json.loads(path.read_text())["presets"]["small"]["steps"]["decode"]
        for path in (run[0] / MEASURED.name, MEASURED)
    )
    assert {name: cost["counts"] for name, cost in modelled.items()} == {
        name: cost["counts"] for name, cost in measured.items()
    }


def test_two_checkouts_are_measured_and_one_with_itself_makes_the_same_calls(run):
    figures = json.loads((run[0] / "host_bound_engine.json").read_text())
    this, other = figures["steps"]["this"], figures["steps"]["other"]
    assert this["calls"] == other["calls"] > 0
    assert [*figures["builders"]] == ["1", "2", "3", "4"]
