"""The host-bound benchmark: its table, its record, and an older checkout beside this one."""

import json
import os

import pytest
import torch

import debubble
from debubble.assets import ASSETS
from solutions.engine.pictures.dashboard import TABLES, TOKENS
from solutions.host_bound.batch import decode_batch
from solutions.host_bound.measure import engine_steps, host_steps, model_steps
from solutions.models.checkpoints.random_folder import SHAPES
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
        patch.setattr(engine_steps, "REQUESTS_ON_SIM", 2)
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


@pytest.mark.parametrize("name", host_steps.VARIANTS)
def test_each_variant_stores_the_rows_of_the_first(accelerator, name):
    batch, given = decode_batch(16, 3), torch.rand(16, 16).to(accelerator.device)
    caches = []
    for variant in ("before", name):
        server = host_steps.server_of(host_steps.HostStep(4, 16, 3, 16), variant)
        server.step(batch, given)
        caches.append(torch.stack(server.caches)[:, 16:].cpu())
    torch.testing.assert_close(caches[1], caches[0])
    assert caches[0].any()


@pytest.mark.parametrize(
    "name, uploads, launched, kernels",
    [("graph_alone", 9, 1, 4 * 3 + 3), ("after_fused", 1, 1, 4 + 3)],
)
def test_each_part_of_the_change_alone(accelerator, name, uploads, launched, kernels):
    """A graph with the first metadata, and fused kernels in a graph with the shared one."""
    step = host_steps.step_of(host_steps.HostStep(4, 16, 3, 16), name)
    step()
    with debubble.record(accelerator) as timeline:
        step()
    counts = timeline.counts()
    assert (counts["h2d_pinned"], counts["graph_launches"]) == (uploads, launched)
    assert counts["kernels"] == kernels


def test_two_checkouts_are_measured_and_one_with_itself_makes_the_same_calls(run):
    figures = json.loads((run[0] / "host_bound_engine.json").read_text())
    this, other = figures["steps"]["this"], figures["steps"]["other"]
    assert this["calls"] == other["calls"] > 0
    assert [*figures["builders"]] == ["1", "2", "3", "4"]


def test_a_models_step_in_a_graph_has_the_same_kernels_and_one_launch(accelerator, run):
    pytest.importorskip("transformers")
    record = json.loads((run[0] / "host_bound_model.json").read_text())
    assert record["modelled"] is accelerator.modelled
    steps = record["presets"]["tiny"]["steps"]["decode"]
    eager, in_graph = (steps[name] for name in ("eager", "in_graph"))
    assert eager["counts"]["kernels"] == in_graph["counts"]["kernels"] > 50
    assert (eager["counts"]["graph_launches"], in_graph["counts"]["graph_launches"]) == (0, 1)
    assert eager["counts"]["host_syncs"] == in_graph["counts"]["host_syncs"] == 0
    if accelerator.modelled:
        assert in_graph["loop_us"] < eager["loop_us"]
        assert [*steps] == ["eager", "in_graph"]
        assert not any(record["compile"].values())
    else:
        assert steps["compiled"]["counts"]["kernels"] < eager["counts"]["kernels"]
        assert len(record["compile"]["triton_s"]) == len(model_steps.KEYS)


def test_the_model_measured_is_that_of_the_checkpoints():
    """The shape is Qwen3-0.6B's, as solutions/models writes its checkpoints."""
    shape, config = model_steps.QWEN3, SHAPES["qwen3_0.6b"]
    assert (shape.num_layers, shape.hidden_size) == (
        config["num_hidden_layers"],
        config["hidden_size"],
    )
    assert (shape.num_heads, shape.num_kv_heads, shape.head_size) == (
        config["num_attention_heads"],
        config["num_key_value_heads"],
        config["head_dim"],
    )
    assert (shape.intermediate_size, shape.vocab_size) == (
        config["intermediate_size"],
        config["vocab_size"],
    )
    # Each measured step adds a token to the cache: two variants at first, then all four.
    most = model_steps.RUNS * (1 + model_steps.STEPS_IN_A_ROW[False]) + 4
    assert (2 + 4) * most <= shape.most_tokens - shape.cached_tokens


@pytest.mark.sim
def test_a_run_cut_while_it_compiles_keeps_the_steps_before(accelerator, monkeypatch, tmp_path):
    pytest.importorskip("transformers")

    def cut(shape, accelerator, compiling):
        yield from of_all(shape, accelerator, compiling)
        raise KeyboardInterrupt

    of_all = model_steps.steps_of
    monkeypatch.setattr(model_steps, "steps_of", cut)
    with pytest.raises(KeyboardInterrupt):
        model_steps.main(["--output", str(tmp_path)])
    record = json.loads((tmp_path / "host_bound_model.json").read_text())
    assert [*record["presets"]["tiny"]["steps"]["decode"]] == ["eager", "in_graph"]


def test_compilers_find_their_caches_empty_and_afterwards_as_before(monkeypatch):
    kept, unset = model_steps.CACHES
    monkeypatch.setenv(kept, "/kept")
    monkeypatch.delenv(unset, raising=False)
    with model_steps.empty_caches():
        folders = [os.environ[name] for name in model_steps.CACHES]
        assert len({*folders, "/kept"}) == 3
        assert not any(os.path.exists(folder) for folder in folders)
    assert os.environ[kept] == "/kept"
    assert unset not in os.environ
