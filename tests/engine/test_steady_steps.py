"""The host's work in a warmed-up step, and the fault that each optimisation removes."""

from dataclasses import replace

import pytest

import debubble
from solutions.engine import SamplingParams
from solutions.host_bound.measure.engine_steps import decoding_engine, metadata_builder
from solutions.offload.choice.crossover import Crossover
from tests.instructions import instructions_of

from .setting import ALL, WITHOUT, Setting, add, serve, small, tokens_of

IMAGE = (2, 9)
COUNTED = ("host_syncs", "h2d_pageable", "h2d_pinned", "d2h", "graph_launches")


@pytest.fixture(scope="module")
def setting(accelerator):
    return Setting.of(small(limits={"max_num_seqs": 2}), accelerator)


@pytest.fixture(scope="module")
def steps(accelerator, setting):
    """Returns a function that takes optimisations and returns three timelines: of a step with the
    beginnings of two prompts with images, of the step with their ends, and of a decode step."""
    recorded = {}

    def of(optimizations):
        if optimizations not in recorded:
            recorded[optimizations] = record_steps(accelerator, setting, optimizations)
        return recorded[optimizations]

    return of


def record_steps(accelerator, setting, optimizations):
    engine = setting.engine(optimizations)
    if not accelerator.modelled:
        ask(engine, setting, seeds=(3, 4))
        engine.run()  # compiles
    ask(engine, setting, seeds=(1, 2))
    timelines = []
    for _ in range(4):
        # Waits for the step before depend on timing, and are no part of these counts.
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            engine.step()
        assert timeline.hazards == []
        timelines.append(timeline)
    prompts, ends, _, decode = timelines
    return prompts, ends, decode


def ask(engine, setting, seeds):
    for seed in seeds:
        add(engine, setting.asked(20, seed, [IMAGE], max_tokens=8))


def counts(timeline):
    return {name: timeline.counts()[name] for name in COUNTED}


def waits_at(timeline):
    """Returns the names of the files in which the host waits."""
    return {event.source.file.split("/")[-1] for event in timeline.events if event.kind == "sync"}


def test_a_recording_names_each_step_by_its_requests(steps):
    names = [[step.name for step in timeline.steps] for timeline in steps(ALL)]
    (first,), (second,), (decodes,) = names
    assert first.startswith("2 prompts of") and "with 2 images" in first
    assert "prompt" in second and decodes == "2 decodes"


def test_a_steady_decode_step_is_one_upload_one_graph_and_one_read(steps):
    *_, decode = steps(ALL)
    assert counts(decode) == {
        "host_syncs": 0,
        "h2d_pageable": 0,
        "h2d_pinned": 1,
        "d2h": 1,
        "graph_launches": 1,
    }


def test_a_decode_in_a_graph_builds_metadata_once_and_of_images_alone(setting, monkeypatch):
    engine, built = setting.engine(), []
    ask(engine, setting, seeds=(1, 2))
    for _ in range(3):
        engine.step()
    for kind, backend in engine.runner.backends.items():
        monkeypatch.setattr(backend, "build", lambda *given, kind=kind: built.append(kind))
    engine.step()
    assert len(engine.runner.backends) == 3 and built == ["spans"]


def test_a_decode_runs_in_the_smallest_graph_that_holds_it(attention_only):
    config = replace(attention_only.config, capture_sizes=(1, 3))
    engine = attention_only.engine(ALL, config)
    captured_for, used = engine.runner._captured_for, []

    def noted(batch, padded_rows):
        graphs = captured_for(batch, padded_rows)
        used.append(graphs and graphs.size)
        return graphs

    engine.runner._captured_for = noted
    for number in range(2):
        add(engine, attention_only.asked(5, number, max_tokens=2 + number))
    engine.run()
    assert used == [None, 3, 1]


def test_a_layer_between_two_graphs_answers_as_in_one(attention_only):
    config = replace(attention_only.config, capture_sizes=(1,))
    engine = attention_only.engine(WITHOUT["pinned_h2d"], config)
    assert len(engine.runner.captured[1].graphs) == 2
    asked = [attention_only.asked(5, max_tokens=3)]
    assert tokens_of(serve(engine, asked)) == attention_only.answers(asked)


def test_a_prefill_with_images_waits_for_nothing(steps):
    for timeline in steps(ALL)[:2]:
        assert counts(timeline)["host_syncs"] == counts(timeline)["h2d_pageable"] == 0
        assert counts(timeline)["h2d_pinned"] == 3, "the step, its images, its chunks"


def test_all_that_comes_back_of_a_prefill_is_its_tokens_behind_an_event(steps):
    nothing_sampled, sampled, _ = steps(ALL)
    assert counts(nothing_sampled)["d2h"] == 0
    (read,) = [event for event in sampled.events if event.copy_kind == "d2h"]
    assert not read.pageable
    assert read.source.file.endswith("read_back.py")
    assert read.bytes == 2 * 8


def test_without_pinned_h2d_ranges_are_uploaded_from_pageable_memory(steps):
    prompts, _, decode = steps(WITHOUT["pinned_h2d"])
    for timeline in (prompts, decode):
        assert counts(timeline)["h2d_pageable"] == 2, "one for each request, in each layer"
        assert counts(timeline)["host_syncs"] == 2
    assert counts(decode)["graph_launches"] == 2, "no graph can hold the layer"


def test_without_sync_free_each_part_is_uploaded_and_tokens_are_waited_for(steps):
    *_, decode = steps(WITHOUT["sync_free"])
    assert counts(decode) == {
        "host_syncs": 11,
        "h2d_pageable": 10,
        "h2d_pinned": 0,
        "d2h": 1,
        "graph_launches": 1,
    }
    (read,) = [event for event in decode.events if event.copy_kind == "d2h"]
    assert read.pageable


def test_without_gdn_precompute_a_prefill_waits_for_its_chunk_tables(steps):
    *prefills, decode = steps(WITHOUT["gdn_precompute"])
    for prefill in prefills:
        assert counts(prefill)["host_syncs"] == 3, "the first of two layers makes the tables"
        assert waits_at(prefill) == {"before.py"}
    assert counts(decode) == counts(steps(ALL)[2]), "decodes have no chunks"


def test_without_flex_full_graph_a_decode_is_in_pieces_and_waits_for_its_mask(steps):
    *_, decode = steps(WITHOUT["flex_full_graph"])
    assert counts(decode)["graph_launches"] == 2
    assert counts(decode)["host_syncs"] > 0
    assert waits_at(decode) == {"before.py", "step_tables.py"}


def test_without_offload_triton_steps_are_the_same(steps):
    for now, before in zip(steps(ALL), steps(WITHOUT["offload_triton"]), strict=True):
        assert counts(now) == counts(before)


def load_of_a_prefix(accelerator, hybrid, optimizations):
    """Serves a prompt, clears the prefix cache, and serves it again. Returns the counts of the
    second time's load: two blocks and the state after them."""
    engine = hybrid.engine(optimizations)
    asked = hybrid.asked(40, max_tokens=1)
    (before,) = serve(engine, [asked])
    engine.reset_prefix_cache()
    add(engine, asked)
    with debubble.record(accelerator) as timeline:
        engine.scheduler.schedule()
    (again,) = engine.run()
    assert (before.num_cached, again.num_cached) == (0, 32)
    assert again.token_ids == before.token_ids == hybrid.answer(asked)
    assert timeline.counts()["host_syncs"] == 0
    return timeline.counts()


@pytest.mark.parametrize("path, kernels", [("kernel", 1), ("dma", 0)])
def test_a_prefix_comes_back_by_the_path_that_was_measured_to_be_faster(
    accelerator, hybrid, path, kernels, monkeypatch
):
    monkeypatch.setattr(Crossover, "best", lambda crossover, nbytes, count: path)
    assert load_of_a_prefix(accelerator, hybrid, ALL)["kernels"] == kernels


def test_without_offload_triton_it_comes_back_by_copies_alone(accelerator, hybrid):
    counts = load_of_a_prefix(accelerator, hybrid, WITHOUT["offload_triton"])
    assert counts["kernels"] == 0
    assert counts["h2d_pinned"] > 0


WITH = {
    "nothing more": {},
    "a temperature": {"temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.01, "seed": 1},
    "penalties": {"presence_penalty": 0.5, "frequency_penalty": 0.2, "repetition_penalty": 1.2},
    "log-probabilities": {"logprobs": [1, 2]},
    "bad words": {"bad_words": [[1]]},
}
SIZED = {
    "a graph for each batch": {},
    "a padded graph": {"capture_sizes": (4,)},
    "graphs of prompts": {"prefill_sizes": (32,)},
    "host memory": {"num_cpu_blocks": 16},
    "drafts": {"num_drafts": 2},
}


@pytest.mark.deep(6)
@pytest.mark.parametrize("sized", SIZED)
@pytest.mark.parametrize("sampling", WITH)
def test_a_steady_decode_has_one_graph_and_at_most_one_upload(
    accelerator, attention_only, sampling, sized
):
    """Whatever is on, a decode step waits for nothing, is one graph, and uploads once at most."""
    engine = attention_only.engine(ALL, replace(attention_only.config, **SIZED[sized]))
    for seed in (1, 2):
        asked = attention_only.asked(20, seed, [(2, 9)])
        params = SamplingParams(max_tokens=30, **WITH[sampling])
        add(engine, replace(asked, sampling=params))
    for _ in range(4):
        engine.step()
    for _ in range(2):
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            engine.step()
        found = counts(timeline)
        assert (found["host_syncs"], found["h2d_pageable"], found["graph_launches"]) == (0, 0, 1)
        assert found["h2d_pinned"] <= 1
        assert timeline.hazards == []


def instructions_to_build(groups, requests):
    return instructions_of(metadata_builder(decoding_engine(groups, requests)), "solutions")


@pytest.mark.sim
def test_a_decodes_metadata_is_built_once_for_all_groups_and_requests(accelerator):
    """Four KV groups cost the builders as many instructions as one, within 10 percent. If the same
    requests go on, another request costs none: no loop over requests is left."""
    one = instructions_to_build(groups=1, requests=4)
    assert instructions_to_build(groups=4, requests=4) <= 1.1 * one
    assert instructions_to_build(groups=1, requests=12) == one
