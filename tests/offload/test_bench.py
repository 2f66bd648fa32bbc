"""The benchmark runs both ways of loading, says how it got its times, and stores them."""

import json
from dataclasses import replace

import pytest

from debubble.timeline import Timeline
from solutions.offload import bench
from solutions.offload.bench import VARIANTS
from solutions.offload.measure import grid, grid_report
from solutions.offload.serving_loop.config import ServingConfig
from tests.terminal import test_the_table_stays_within_a_terminal, with_timelines  # noqa: F401


@pytest.fixture(scope="module")
def run(accelerator, tmp_path_factory):
    """Returns (folder, printed text) of a quick run on a tiny model."""
    tiny = replace(ServingConfig.tiny(), num_requests=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServingConfig, "small", lambda: tiny)
        patch.setattr(grid, "MEMORY", 1 << 26)
        patch.setattr(grid_report, "RUN_PIECES", 64)
        return with_timelines(bench.main, tmp_path_factory.mktemp("bench"))


def test_both_ways_of_loading_have_their_costs(accelerator, run):
    record = json.loads((run[0] / "offload.json").read_text())
    assert record["modelled"] is accelerator.modelled
    assert record["presets"]["narrow"]["config"]["prefix_tokens"] == 8
    costs = record["presets"]["narrow"]["steps"]["load"]
    assert tuple(costs) == tuple(VARIANTS)
    assert costs["before"]["counts"]["h2d_pinned"] == 1, "a batch is one copy"
    for cost in costs.values():
        assert cost["counts"]["host_syncs"] == cost["counts"]["h2d_pageable"] == 0
        assert min(cost["device_us"], cost["host_us"]) > 0


def test_requests_a_second_are_kept_by_way_of_loading(accelerator, run):
    record = json.loads((run[0] / "offload_serving.json").read_text())
    assert record["modelled"] is accelerator.modelled
    rates = record["presets"]["narrow"]["steps"]["serving"]
    assert tuple(rates) == tuple(VARIANTS)
    for rate in rates.values():
        new_tokens = record["presets"]["narrow"]["config"]["new_tokens"]
        assert rate["tokens_per_s"] == pytest.approx(rate["requests_per_s"] * new_tokens)
        assert rate["requests_per_s"] > 0


def test_both_ways_of_loading_have_their_recording(accelerator, run):
    for variant in VARIANTS:
        timeline = Timeline.load(run[0] / "timelines" / f"offload_{variant}.json")
        assert timeline.modelled is accelerator.modelled
        assert timeline.counts()["graph_launches"] > 0


@pytest.mark.sim
def test_without_a_gpu_no_grid_is_measured(run):
    assert "on a GPU" in run[1]
    assert not (run[0] / "offload_grid.json").exists()
