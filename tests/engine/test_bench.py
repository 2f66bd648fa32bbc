"""The benchmark runs everything that it compares, says how it got its figures, and stores them."""

import json
from dataclasses import replace

import pytest

from debubble.timeline import Timeline
from solutions.engine import EngineConfig
from solutions.engine.measure import latency, step_costs
from solutions.engine.measure import variants as of_bench
from solutions.engine.measure.presets import PrefixPreset, ServingPreset
from solutions.engine.measure.variants import VARIANTS
from solutions.engine.pictures.dashboard import TABLES, TOKENS
from solutions.measure.benchmark import idle_in_a_row
from tests.scheduling import schedule_only
from tests.terminal import test_the_table_stays_within_a_terminal, with_timelines  # noqa: F401

COMPARED = ("none", "all")
IN_A_ROW = {"decode": 2, "prefill": 1}
PREFIXES = ["all but offload_triton", "all"]


def tiny(modelled):
    """Returns a preset for the serving benchmark, with a tiny model (one layer of each kind) and
    two requests at a time."""
    config = EngineConfig.tiny()
    config = replace(config, limits=replace(config.limits, max_num_seqs=2))
    return ServingPreset.of(
        config,
        image_tokens=3,
        cached_tokens=6,
        prefill_tokens=7,
        latency_tokens=(5, 2),
        num_requests=2,
        prompt_tokens=(4, 6),
        new_tokens=(1, 2),
        rates=() if modelled else (50.0,),
        runs=1,
    )


def test_the_idle_share_of_a_row_counts_a_host_that_is_late():
    """The idle share of steps in a row includes the host's delays: 75 % if the device works for 30
    of 120 µs, although it is 25 % of the 40 µs after a load."""
    cost = {"device_us": 40.0, "idle_share": 0.25, "loop_us": 120.0}
    assert idle_in_a_row(cost) == pytest.approx(0.75)
    assert idle_in_a_row(cost | {"loop_us": 30.0}) == idle_in_a_row(cost | {"loop_us": 29.0}) == 0


def tiny_prefixes():
    """Returns a preset for the benchmark of prefixes, with two prefixes of one block, of which the
    GPU has room for one."""
    config = EngineConfig.tiny()
    model = replace(config.model, num_layers=1, pattern=("flex",))
    limits = replace(config.limits, max_num_seqs=1, num_gpu_blocks=3)
    return PrefixPreset.of(
        replace(config, model=model, limits=limits, num_cpu_blocks=2),
        num_prefixes=2,
        prefix_tokens=16,
        num_requests=2,
        new_tokens=2,
        num_compared=1,
    )


@pytest.fixture(scope="module")
def run(accelerator, tmp_path_factory):
    """Runs the benchmark with --quick on a tiny model, with the variants "none" and "all". Returns
    (folder of its files, printed text)."""
    preset = tiny(accelerator.modelled)
    with pytest.MonkeyPatch.context() as patch, schedule_only(accelerator, TOKENS | TABLES):
        patch.setattr(of_bench, "VARIANTS", {name: VARIANTS[name] for name in COMPARED})
        patch.setattr(step_costs, "STEPS_IN_A_ROW", dict.fromkeys((True, False), IN_A_ROW))
        for name in ("hybrid", "hybrid_on_sim"):
            patch.setattr(ServingPreset, name, lambda: preset)
        patch.setattr(PrefixPreset, "tiny", tiny_prefixes)
        quicker = lambda options: step_costs.main([*options, "--runs", "2"])
        return with_timelines(quicker, tmp_path_factory.mktemp("bench"))


def steps_of(run, name, preset="hybrid"):
    return json.loads((run[0] / f"{name}.json").read_text())["presets"][preset]["steps"]


@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_a_step_of_every_variant_has_its_costs(run, kind):
    costs = steps_of(run, "engine")[kind]
    assert tuple(costs) == COMPARED
    for cost in costs.values():
        figures = ("loop_us", "device_us", "host_us", "tokens_per_s")
        assert min(cost[figure] for figure in figures) > 0
        assert len(cost["idle_by_cause"]) == 4
        assert 0 <= sum(cost["idle_by_cause"].values()) < 1
    assert costs["none"]["counts"]["host_syncs"] > 0
    assert costs["all"]["counts"]["host_syncs"] == costs["all"]["counts"]["h2d_pageable"] == 0


def test_a_decode_computes_a_token_of_each_request_and_a_prefill_all_of_the_prompts(run):
    for kind, tokens in {"decode": 2, "prefill": 2 * 7}.items():
        for cost in steps_of(run, "engine")[kind].values():
            assert cost["tokens_per_s"] * cost["loop_us"] / 1e6 == pytest.approx(tokens)


def test_with_all_of_them_a_decode_is_one_graph(run):
    costs = steps_of(run, "engine")
    assert costs["decode"]["all"]["counts"]["graph_launches"] == 1
    assert costs["decode"]["none"]["counts"]["graph_launches"] == 3
    assert costs["prefill"]["all"]["counts"]["graph_launches"] == 0


def test_a_batch_has_its_latency_also_in_pieces(run):
    figures = steps_of(run, "engine_latency")["batch"]
    assert tuple(figures) == (*COMPARED, latency.PIECEWISE)
    for figure in figures.values():
        assert figure["seconds"] > 0
        assert figure["tokens_per_s"] * figure["seconds"] == pytest.approx(2 * 2)


def test_requests_have_their_rate_and_on_a_gpu_their_waits(accelerator, run):
    kinds = steps_of(run, "engine_throughput")
    assert list(kinds) == ["at once"] if accelerator.modelled else ["at once", "50/s"]
    for variants in kinds.values():
        assert tuple(variants) == COMPARED
        for rate in variants.values():
            assert min(rate["requests_per_s"], rate["tokens_per_s"]) > 0
            waits = [value for name, value in rate.items() if name.endswith("_ms")]
            assert len(waits) == 4
            assert all((value is None) == accelerator.modelled for value in waits)


def test_requests_behind_long_prefixes_have_their_rate(run):
    rates = steps_of(run, "engine_throughput", "tiny")["shared prefixes"]
    assert list(rates) == PREFIXES
    for rate in rates.values():
        assert rate["tokens_per_s"] == pytest.approx(2 * rate["requests_per_s"])
        assert rate["requests_per_s"] > 0


@pytest.mark.parametrize("name", ["engine", "engine_latency", "engine_throughput"])
def test_a_record_says_what_was_run_and_whether_it_is_modelled(accelerator, run, name):
    record = json.loads((run[0] / f"{name}.json").read_text())
    assert record["benchmark"] == name
    assert record["modelled"] is accelerator.modelled
    config = record["presets"]["hybrid"]["config"]
    assert config["dtype"] == "torch.float32"
    assert config["limits"]["max_num_seqs"] == 2


def test_what_is_drawn_has_its_recording(accelerator, run):
    for variant in step_costs.DRAWN:
        timeline = Timeline.load(run[0] / "timelines" / f"engine_{variant}.json")
        assert timeline.modelled is accelerator.modelled
        assert (timeline.counts()["host_syncs"] > 0) == (variant == "none")


def test_it_says_what_took_how_long(run):
    for part in ("engines of hybrid", "steps", "latency", "throughput", "long prefixes"):
        assert f"{part}: took " in run[1]


@pytest.mark.sim
def test_without_a_gpu_nothing_arrives_at_a_rate(run):
    assert "at a rate are measured on a GPU" in run[1]
