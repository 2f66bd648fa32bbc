"""The benchmark runs all variants, says how it got its times, and stores them."""

import json
from dataclasses import replace

import pytest

from debubble.assets import ASSETS
from solutions.measure import benchmark
from solutions.sync_free.measure import decode_steps, single_sites
from solutions.sync_free.model.config import StepConfig
from solutions.sync_free.model.separate_sites import SITES
from tests.common import claims
from tests.terminal import quick, test_the_table_stays_within_a_terminal  # noqa: F401

VARIANTS = ["before", "separate", "after"]
FEW = replace(StepConfig.small(), prompt_tokens=3, num_layers=1, hidden_size=16)
MEASURED = ASSETS / "benchmarks" / "nvidia-h200" / "sync_free.json"


@pytest.fixture(scope="module")
def run(accelerator, tmp_path_factory):
    """Returns (folder, printed text) of a quick run on the small model only."""
    with pytest.MonkeyPatch.context() as patch, claims.answers_in_time(accelerator):
        patch.setattr(decode_steps, "STEPS_IN_A_ROW", 3)
        return quick(decode_steps.main, tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def record(run):
    return json.loads((run[0] / "sync_free.json").read_text())


def test_every_variant_has_its_costs(accelerator, record):
    assert record["modelled"] is accelerator.modelled
    steps = record["presets"]["small"]["steps"]["decode"]
    assert list(steps) == VARIANTS
    before, *others = steps.values()
    for now in others:
        assert now["counts"]["host_syncs"] == now["counts"]["h2d_pageable"] == 0
        assert min(now["device_us"], now["host_us"], now["loop_us"]) > 0
        if accelerator.modelled:  # Clocks are unreliable on a machine with other work.
            assert before["device_us"] > now["device_us"]
            assert before["host_us"] > benchmark.LOAD_MS * 1e3 > now["host_us"]
    assert steps["after"]["counts"]["h2d_pinned"] == accelerator.pin_memory


@pytest.mark.deep
def test_each_site_has_its_costs_alone_and_left_out(accelerator, monkeypatch, tmp_path):
    """A site's waits are missing where it alone is changed, and are the only ones left where it
    alone is not changed."""
    monkeypatch.setattr(single_sites, "STEPS_IN_A_ROW", {True: 1, False: 2})
    monkeypatch.setattr(single_sites, "choose_presets", lambda *given: {"small": FEW})
    with claims.answers_in_time(accelerator):
        single_sites.main(["--quick", "--output", str(tmp_path)])
    record = json.loads((tmp_path / "sync_free_sites.json").read_text())
    assert record["modelled"] is accelerator.modelled
    steps = record["presets"]["small"]["steps"]["decode"]
    assert len(steps) == 3 + 2 * len(SITES)
    waits = {name: cost["counts"]["host_syncs"] for name, cost in steps.items()}
    assert waits["separate"] == waits["after"] == 0
    for site in SITES:
        assert waits["before"] - waits[f"only {site}"] == waits[f"all but {site}"] > 0
    assert min(cost["loop_us"] for cost in steps.values()) > 0
    if accelerator.modelled:
        assert steps["before"]["loop_us"] > steps["separate"]["loop_us"]


@pytest.mark.sim
def test_the_counts_are_those_measured_on_the_h200(record):
    """The counts of the small preset's decode steps on sim equal those measured on the H200, for
    all variants."""
    modelled = record["presets"]["small"]["steps"]["decode"]
    measured = json.loads(MEASURED.read_text())["presets"]["small"]["steps"]["decode"]
    assert {name: cost["counts"] for name, cost in modelled.items()} == {
        name: cost["counts"] for name, cost in measured.items()
    }


@pytest.mark.parametrize("number", ["0", "-1", "few", "1.5"])
def test_fewer_than_one_run_are_refused(number, capsys):
    with pytest.raises(SystemExit):
        decode_steps.main([f"--runs={number}"])
    assert f"argument --runs: it is at least 1, not {number}" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "runs"), [([], 31), (["--quick"], 5), (["--runs=3"], 3)])
def test_a_step_runs_as_often_as_is_said(given, runs):
    assert benchmark.parse_options("gdn", "", given).runs == runs
