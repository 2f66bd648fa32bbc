"""The benchmark runs all variants, says how it got its times, and stores them."""

import json
from dataclasses import asdict, replace

import pytest

from debubble.timeline import Timeline
from solutions.engine.pictures.dashboard import TABLES
from solutions.flex_graph import bench
from solutions.flex_graph.measure import decode_step, step_limits
from solutions.flex_graph.measure.decode_step import STEPS_IN_A_ROW, FlexWorkload
from solutions.flex_graph.model.config import FlexConfig
from solutions.flex_graph.step import VARIANTS
from solutions.measure import benchmark
from tests.scheduling import schedule_only
from tests.terminal import test_the_table_stays_within_a_terminal, with_timelines  # noqa: F401

LAYERS = 2


@pytest.fixture(scope="module")
def run(accelerator, tmp_path_factory):
    """Returns (folder, printed text) of a quick run on a tiny model."""
    tiny = asdict(replace(FlexConfig.tiny(), num_layers=LAYERS))
    workload = FlexWorkload(**tiny, cached=(5, 40), num_gpu_blocks=32)
    with pytest.MonkeyPatch.context() as patch, schedule_only(accelerator, TABLES):
        for preset in ("narrow", "small"):
            patch.setattr(FlexWorkload, preset, lambda: workload)
        # These matter on a GPU: the model whose weights are read, and the blocks of a
        # request's metadata.
        patch.setattr(FlexConfig, "llama_3_8b", FlexConfig.small)
        patch.setattr(step_limits, "BLOCKS", 64)
        patch.setattr(decode_step, "STEPS_IN_A_ROW", {True: 2, False: 3})
        return with_timelines(bench.main, tmp_path_factory.mktemp("bench"))


def test_every_variant_has_its_costs(accelerator, run):
    record = json.loads((run[0] / "flex_graph.json").read_text())
    assert record["modelled"] is accelerator.modelled
    assert record["presets"]["narrow"]["config"]["cached"] == [5, 40]
    steps = record["presets"]["narrow"]["steps"]["decode"]
    assert tuple(steps) == VARIANTS
    waits = {variant: cost["counts"]["host_syncs"] > 0 for variant, cost in steps.items()}
    assert waits == {variant: variant in ("eager", "piecewise") for variant in VARIANTS}
    graphs = {variant: cost["counts"]["graph_launches"] for variant, cost in steps.items()}
    in_pieces = LAYERS + 1
    assert list(graphs.values()) == [0, in_pieces, in_pieces, 1, 1]
    for cost in steps.values():
        assert cost["counts"]["h2d_pinned"] == 2 * accelerator.pin_memory
        assert min(cost["loop_us"], cost["device_us"], cost["host_us"]) > 0
    if accelerator.modelled:  # Clocks are unreliable on a machine with other work.
        load_us = benchmark.LOAD_MS * 1e3
        assert steps["eager"]["host_us"] > load_us > steps["full"]["host_us"]


def test_every_variant_has_its_recording(accelerator, run):
    for variant in VARIANTS:
        timeline = Timeline.load(run[0] / "timelines" / f"flex_graph_{variant}.json")
        assert timeline.modelled is accelerator.modelled
        assert (timeline.counts()["host_syncs"] > 0) == (variant in ("eager", "piecewise"))


@pytest.mark.sim
def test_without_a_gpu_no_limit_is_measured(run):
    assert "on a GPU" in run[1]
    assert not (run[0] / "flex_graph_limits.json").exists()


@pytest.mark.gpu
def test_with_a_gpu_the_limits_are_measured_as_well(run):
    record = json.loads((run[0] / "flex_graph_limits.json").read_text())
    assert record["weights"]["read_once_us"] > 0
    assert record["build"]["device_us"] > 0


def test_the_weights_of_a_step_are_those_of_layers_and_head():
    assert FlexConfig.llama_3_8b().weight_bytes == pytest.approx(15.0e9, rel=0.01)


WORKLOADS = [FlexWorkload.narrow(), FlexWorkload.small(), FlexWorkload.llama_3_8b()]


@pytest.mark.parametrize("workload", WORKLOADS, ids=["narrow", "small", "llama_3_8b"])
def test_a_row_of_steps_stays_within_the_limits(workload):
    num_steps = STEPS_IN_A_ROW[False]
    batches = workload.batches(num_steps)
    for batch in batches:
        batch.check(workload.limits(), workload.vocab_size)
    assert (batches[-1].seq_lens - batches[0].seq_lens == num_steps - 1).all()


def test_the_requests_of_the_large_model_have_512_to_1024_tokens():
    batches = FlexWorkload.llama_3_8b().batches(STEPS_IN_A_ROW[False])
    lengths = [length for batch in batches for length in batch.seq_lens.tolist()]
    assert len(batches[0].seq_lens) == 8
    assert min(lengths) >= 512
    assert max(lengths) <= 1024
