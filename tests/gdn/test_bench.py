"""The benchmark runs all variants, says how it got its times, and stores them."""

import json
from dataclasses import replace

import pytest

from debubble.timeline import Timeline
from solutions.gdn import bench
from solutions.gdn.measure import forward_calls, forward_comparison, step_sizes
from solutions.gdn.measure.batches import BATCHES, DRAWN
from solutions.gdn.measure.prefill_step import MEASURED, GDNWorkload
from solutions.gdn.step import MOST_TOKENS
from solutions.measure import benchmark
from tests.scheduling import schedule_only
from tests.terminal import test_the_table_stays_within_a_terminal, with_timelines  # noqa: F401

LAYERS = 2


@pytest.fixture(scope="module")
def run(accelerator, tmp_path_factory):
    """Returns (folder, printed text) of a quick run on a small model of few layers and heads."""
    shallow = replace(GDNWorkload.small(), num_layers=LAYERS, num_v_heads=1)
    with pytest.MonkeyPatch.context() as patch, schedule_only(accelerator):
        patch.setattr(GDNWorkload, "small", lambda: shallow)
        patch.setattr(forward_calls, "HEADS", 4)
        # Peers change their process, so test_forward_comparison runs them in a process of
        # its own.
        patch.setattr(forward_comparison, "PEERS", ())
        return with_timelines(bench.main, tmp_path_factory.mktemp("bench"))


def test_every_variant_has_its_costs(accelerator, run):
    record = json.loads((run[0] / "gdn.json").read_text())
    assert record["modelled"] is accelerator.modelled
    assert record["presets"]["small"]["config"]["prompt_lens"] == [9, 5, 3]
    steps = record["presets"]["small"]["steps"]["prefill"]
    assert tuple(steps) == MEASURED
    syncs = {variant: cost["counts"]["host_syncs"] for variant, cost in steps.items()}
    assert syncs == {"before": 3 * LAYERS, "cached": 3, "after": 0, "on_device": 0, "in_graph": 0}
    assert steps["in_graph"]["counts"]["graph_launches"] == 1
    assert steps["in_graph"]["counts"]["kernels"] == steps["on_device"]["counts"]["kernels"]
    if accelerator.modelled:
        assert steps["in_graph"]["loop_us"] < steps["on_device"]["loop_us"]
    for now in (steps["after"], steps["on_device"]):
        assert min(now["host_us"], now["device_us"]) > 0
        if accelerator.modelled:  # Clocks are unreliable on a machine with other work.
            assert steps["before"]["device_us"] > steps["cached"]["device_us"] > now["device_us"]
            assert steps["cached"]["host_us"] > benchmark.LOAD_MS * 1e3 > now["host_us"]
    assert steps["after"]["counts"]["h2d_pinned"] == accelerator.pin_memory
    assert steps["on_device"]["counts"]["h2d_pinned"] == 0


def test_every_variant_has_its_recording(accelerator, run):
    for variant in MEASURED:
        timeline = Timeline.load(run[0] / "timelines" / f"gdn_{variant}.json")
        assert timeline.modelled is accelerator.modelled
        assert timeline.counts()["d2h"] == {"before": LAYERS, "cached": 1}.get(variant, 0)


def test_a_step_of_twice_the_tokens_waits_as_often(accelerator, run):
    record = json.loads((run[0] / "gdn_sizes.json").read_text())
    assert record["modelled"] is accelerator.modelled
    few, more = record["presets"].values()
    assert [*record["presets"]] == ["17 tokens", "34 tokens"]
    assert more["config"]["prompt_lens"] == [18, 10, 6]
    for name in MEASURED:
        costs = [size["steps"]["prefill"][name] for size in (few, more)]
        assert costs[0]["counts"]["host_syncs"] == costs[1]["counts"]["host_syncs"]
        assert min(cost["loop_us"] for cost in costs) > 0


def test_the_sizes_of_a_step_are_those_of_the_serving_step_scaled():
    serving = GDNWorkload.serving()
    for num_tokens in step_sizes.TOKENS:
        sized = step_sizes.scaled(serving, num_tokens)
        assert sum(sized.prompt_lens) == num_tokens <= MOST_TOKENS
    assert step_sizes.scaled(serving, 8192) == serving
    assert min(step_sizes.TOKENS) < 8192 < max(step_sizes.TOKENS)


@pytest.mark.sim
def test_without_a_gpu_no_forward_is_timed(run):
    assert "on a GPU only" in run[1]
    assert not (run[0] / "gdn_forward.json").exists()


@pytest.mark.gpu
def test_with_a_gpu_the_forward_is_timed_as_well(run):
    record = json.loads((run[0] / "gdn_forward.json").read_text())
    assert len(record["cases"]) == len(BATCHES) + DRAWN
    for case in record["cases"]:
        for times in case["forwards"].values():
            assert times["as_called_us"] > 0
            assert times["gpu_us"] > 0
    for errors in record["relative_errors"].values():
        assert errors["ours"]["o"] < 5e-3


def test_a_serving_step_is_as_large_as_a_step_may_be():
    workload = GDNWorkload.serving()
    assert sum(workload.prompt_lens) == 8192 <= MOST_TOKENS
    assert len(workload.prompt_lens) <= workload.num_slots
