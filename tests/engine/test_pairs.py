"""The measurement of sets of optimisations: which sets it measures, and what it stores."""

import json
from itertools import combinations

import pytest

from solutions.engine import NAMES, Optimizations
from solutions.engine.measure import pairs, step_costs
from solutions.engine.measure.presets import ServingPreset
from solutions.engine.measure.variants import optimizations_of
from solutions.engine.pictures.dashboard import TABLES, TOKENS
from tests.scheduling import schedule_only

from .test_bench import IN_A_ROW, tiny


@pytest.mark.parametrize("names, count", [(pairs.CHANGED, 8 + 1), (NAMES, 32)])
def test_each_set_is_measured_once_and_its_name_says_which_it_is(names, count):
    sets = pairs.sets_of(names)
    assert (sets[0], sets[-1]) == ("none", "all")
    assert len({optimizations_of(name) for name in sets}) == len(sets) == count
    for size in range(len(names)):
        for chosen in combinations(names, size):
            assert str(Optimizations.only(chosen)) in sets


@pytest.mark.deep
def test_the_record_has_the_names_that_chapter_06_reads(accelerator, tmp_path, monkeypatch):
    preset = tiny(accelerator.modelled)
    monkeypatch.setattr(step_costs, "STEPS_IN_A_ROW", dict.fromkeys((True, False), IN_A_ROW))
    monkeypatch.setattr(pairs, "CHANGED", ("pinned_h2d", "flex_full_graph"))
    for name in ("hybrid", "hybrid_on_sim"):
        monkeypatch.setattr(ServingPreset, name, lambda: preset)
    with schedule_only(accelerator, TOKENS | TABLES):
        pairs.main(["--runs", "1", "--output", str(tmp_path)])
    record = json.loads((tmp_path / "engine_pairs.json").read_text())
    steps = record["presets"]["hybrid"]["steps"]["decode"]
    both = "pinned_h2d+flex_full_graph"
    assert list(steps) == ["none", "pinned_h2d", "flex_full_graph", both, "all"]
    waits = [cost["counts"]["host_syncs"] for cost in steps.values()]
    assert waits[0] > max(waits[1:3]) and min(waits[1:3]) > waits[3] > waits[4] == 0
