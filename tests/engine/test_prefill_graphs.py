"""The sixth bubble: steps with prompts run as graphs, by buckets of tokens."""

from dataclasses import replace

import pytest

import debubble
from solutions.engine import EngineConfig, SamplingParams
from solutions.engine.measure.prefill_graphs import measure
from solutions.engine.measure.presets import ServingPreset
from solutions.engine.model.config import default_prefill_sizes
from solutions.engine.run.step_inputs import PackedInputs
from solutions.flex_graph import Limits

from .setting import ALL, NONE, WITHOUT, Setting, add, mixed_requests, serve, small, tokens_of

SIZES = (8, 24, 40)


def graphed(config):
    return replace(config, prefill_sizes=SIZES)


@pytest.fixture(scope="module")
def crowded(accelerator):
    """Returns a Setting with 5 blocks, in which requests are preempted, share steps, and continue
    from prefixes of other requests."""
    limits = {"num_gpu_blocks": 6, "max_num_batched_tokens": 40}
    return Setting.of(small(limits=limits, num_cpu_blocks=32), accelerator)


@pytest.fixture(scope="module")
def right(crowded):
    return crowded.answers(mixed_requests(crowded.config.model, 12, seed=4))


@pytest.mark.deep(4)
@pytest.mark.parametrize(
    "optimizations",
    [NONE, ALL, WITHOUT["gdn_precompute"], WITHOUT["flex_full_graph"]],
    ids=str,
)
def test_steps_with_prompts_in_graphs_say_the_same(accelerator, crowded, right, optimizations):
    engine = crowded.engine(optimizations, graphed(crowded.config))
    asked = mixed_requests(crowded.config.model, 12, seed=4)
    with debubble.record(accelerator) as timeline:
        outputs = serve(engine, asked)
    assert tokens_of(outputs) == right
    assert timeline.hazards == []


def record_prefill(accelerator, setting, config, images=(), num_tokens=20):
    engine = setting.engine(ALL, config)
    for seed in (1, 2):
        add(engine, setting.asked(num_tokens // 2, seed, images, max_tokens=2))
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        engine.step()
    engine.run()
    return timeline


@pytest.mark.sim
def test_a_step_with_prompts_is_one_upload_and_one_graph(accelerator, hybrid):
    before = record_prefill(accelerator, hybrid, hybrid.config)
    after = record_prefill(accelerator, hybrid, graphed(hybrid.config))
    counts = after.counts()
    assert before.counts()["graph_launches"] == 0
    assert before.counts()["h2d_pinned"] == 2, "the step, and its chunks"
    assert (counts["graph_launches"], counts["host_syncs"]) == (1, 0)
    assert (counts["h2d_pinned"], counts["h2d_pageable"]) == (1, 0)
    host = [max(e.end for e in t.events if not e.on_device) for t in (before, after)]
    assert host[1] < host[0] / 4


@pytest.mark.sim
def test_images_are_one_upload_more(accelerator, attention_only):
    config = graphed(attention_only.config)
    counts = record_prefill(accelerator, attention_only, config, [(2, 7)]).counts()
    assert (counts["graph_launches"], counts["h2d_pinned"], counts["host_syncs"]) == (1, 2, 0)


@pytest.mark.sim
def test_what_no_graph_can_hold_runs_between_them(accelerator, hybrid):
    engine = hybrid.engine(WITHOUT["gdn_precompute"], graphed(hybrid.config))
    prompts = engine.runner.captured_prefills[8]
    assert prompts.eager_kinds == ["gdn"]
    assert len(prompts.graphs) == 1 + hybrid.config.model.num_layers_of("gdn")
    assert engine.runner.captured[4].eager_kinds == []


def test_prompts_in_a_graph_have_the_answers_of_the_reference(attention_only):
    config = replace(attention_only.config, prefill_sizes=(8,), capture_sizes=())
    all_asked = [attention_only.asked(length, length, max_tokens=1) for length in (2, 5)]
    outputs = serve(attention_only.engine(ALL, config), all_asked)
    assert tokens_of(outputs) == attention_only.answers(all_asked)


def test_the_image_of_a_step_is_gone_in_the_replay_after_it(accelerator):
    setting = Setting.of(small("spans", "flex"), accelerator)
    engine = setting.engine(ALL, replace(setting.config, prefill_sizes=(32,)))
    for asked in (setting.asked(20, 1, [(1, 16)], max_tokens=1), setting.asked(18, max_tokens=4)):
        assert tokens_of(serve(engine, [asked])) == [setting.answer(asked)]


def test_a_graph_of_many_tokens_chooses_for_no_more_rows_than_there_are_requests(
    attention_only, monkeypatch
):
    """A graph of 24 tokens samples for `max_num_seqs` rows only, also in its warm-up: there are no
    sampling parameters for more."""
    choose, rows = PackedInputs.choose, []

    def noted(inputs, logits, *round):
        rows.append(len(logits))
        return choose(inputs, logits, *round)

    monkeypatch.setattr(PackedInputs, "choose", noted)
    config = replace(attention_only.config, prefill_sizes=(24,), capture_sizes=())
    attention_only.engine(ALL, config)
    assert {*rows} == {config.limits.max_num_seqs}


def test_a_step_that_is_too_large_runs_as_before(accelerator, hybrid):
    config = replace(hybrid.config, prefill_sizes=(8,))
    engine = hybrid.engine(ALL, config)
    asked = [hybrid.asked(30, 5, max_tokens=3)]
    assert tokens_of(serve(engine, asked)) == hybrid.answers(asked)


@pytest.mark.parametrize("sizes", [(0,), (65,), (8.5,)], ids=str)
def test_sizes_that_no_step_has_are_refused(sizes):
    with pytest.raises(ValueError, match=r"a graph for .* tokens"):
        replace(small("flex"), prefill_sizes=sizes)


@pytest.mark.parametrize(
    "most, right",
    [(16, (16,)), (64, (64,)), (300, (64, 128, 256, 300)), (8192, (64, 128, 256, 512))],
)
def test_default_sizes(most, right):
    limits = Limits(max_num_seqs=4, max_num_batched_tokens=most, max_model_len=64, num_gpu_blocks=9)
    assert default_prefill_sizes(limits) == right


def test_wishes_hold_in_prefill_graphs_too(attention_only):
    chance = {"temperature": 1.1, "presence_penalty": 0.4}
    answers = []
    for config in (attention_only.config, graphed(attention_only.config)):
        engine = attention_only.engine(ALL, config)
        sampling = SamplingParams(max_tokens=4, seed=5, **chance)
        answers.append(engine.generate([[1, 2, 3], [4, 5]], sampling, n=2))
    assert answers[0] == answers[1]
    assert len(answers[0]) == 4 and answers[0][0] != answers[0][1]


@pytest.mark.deep
@pytest.mark.sim
def test_the_benchmark_measures_both_ways(accelerator):
    tiny = ServingPreset.of(
        replace(EngineConfig.tiny(), num_cpu_blocks=0),
        prefill_tokens=6,
        latency_tokens=(8, 2),
        num_requests=2,
        prompt_tokens=(4, 8),
        new_tokens=(1, 2),
        runs=1,
    )
    before, after = measure(accelerator, tiny, 1).values()
    assert (before.counts["graph_launches"], after.counts["graph_launches"]) == (0, 1)
    assert after.host_us < before.host_us
