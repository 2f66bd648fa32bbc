"""Chapter 06's dashboards: a moment on sim, and what a GPU has recorded."""

from dataclasses import replace
from itertools import pairwise, product

import pytest

import debubble
from debubble.sim.kernels import launches
from debubble.timeline.trace_format import TraceFileError
from solutions.engine import NAMES, EngineConfig, Model, Optimizations, SamplingParams
from solutions.engine.measure import recordings as recording
from solutions.engine.measure.moment import Moment, Setting, arriving_prompt
from solutions.engine.pictures import dashboard, recorded
from solutions.engine.requests.new_request import new_request
from tests.scheduling import schedule_only

SMALL = Setting(batch=2, layers=4)


@pytest.fixture(scope="module")
def model(accelerator):
    return Model(SMALL.config, accelerator.device)


@pytest.fixture(scope="module")
def runs():
    """Returns two runs of the dashboard, {optimisations: run}: with none and with all of them
    on."""
    values = {name: getattr(SMALL, name) for name in dashboard.SLIDERS}
    return {
        Optimizations.only(on): dashboard.run(frozenset(on), dict(values)) for on in ((), NAMES)
    }


@pytest.fixture
def narrow_llama(monkeypatch):
    tiny = EngineConfig.tiny()
    model = replace(tiny.model, num_layers=1, pattern=("flex",))
    config = replace(tiny, model=model, num_cpu_blocks=0)
    monkeypatch.setattr(EngineConfig, "llama_3_8b", lambda: config)
    monkeypatch.setattr(recording, "BATCHES", (1, 2))
    monkeypatch.setattr(recording, "WARM_UP", 2)
    monkeypatch.setattr(recording, "STEPS", 2)
    return config


@pytest.fixture
def recordings(monkeypatch, tmp_path):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    return tmp_path


def test_there_is_a_switch_for_each_optimisation():
    assert tuple(dashboard.TOGGLES) == NAMES


def test_whatever_the_sliders_say_the_request_that_arrives_can_be_served():
    for values in product(*dashboard.SLIDERS.values()):
        setting = dashboard.setting_of(dict(zip(dashboard.SLIDERS, values, strict=True)))
        config, prompt = setting.config, arriving_prompt(setting)
        sampling = SamplingParams(max_tokens=config.limits.block_size)
        new_request("arrives", prompt.tokens, prompt.images, sampling, config)
        assert setting.batch in config.capture_sizes


def test_each_time_the_prefix_is_loaded_and_the_others_decode(accelerator, model):
    moment = Moment(SMALL, Optimizations(), model)
    for _ in range(2):
        with schedule_only(accelerator, dashboard.TOKENS | dashboard.TABLES):
            moment.prepare()
            (decoding,) = moment.engine.requests
            before = len(decoding.generated)
            with debubble.record(accelerator) as timeline:
                seen = moment.run()
        _, arrived = moment.engine.requests
        assert arrived.num_cached == SMALL.prefix
        assert seen.num_tokens == len(decoding.generated) - before + len(arrived.generated)
        assert timeline.hazards == []


def test_with_all_on_nothing_is_uploaded_from_pageable_memory(runs):
    counts = {on: run.timeline.counts() for on, run in runs.items()}
    before, after = counts[Optimizations.none()], counts[Optimizations()]
    assert after["h2d_pageable"] == 0 < before["h2d_pageable"]
    assert after["host_syncs"] < before["host_syncs"]


def test_the_figures_are_those_of_the_timeline(runs):
    for run in runs.values():
        figures, seconds = run.figures, run.timeline.span / 1e6
        assert figures["tokens/s"] == pytest.approx(figures["tokens"] / seconds)
        assert figures["ms a step"] == pytest.approx(1e3 * seconds / figures["steps"])


def test_the_engine_s_counts_are_shown_and_none_of_its_times(accelerator, model):
    """Shows what the optimisations save, in waits of a step, and what the prefix saves."""
    shown = {}
    for on, prefix in product(((), NAMES), (0, SMALL.prefix)):
        setting = replace(SMALL, prefix=prefix)
        recorded = dashboard.record_moment(
            accelerator, setting, Optimizations.only(on), model, schedule_only=True
        )
        shown[on, prefix] = counts = dashboard.counts_of(recorded)
        assert [*counts] == ["waits a step", "% of prompts from a cache", "preemptions"]
        syncs = recorded.timeline.counts()["host_syncs"]
        assert counts["waits a step"] == syncs / recorded.seen.num_steps
        assert counts["preemptions"] == recorded.moment.engine.scheduler.num_preemptions == 0
    for prefix in (0, SMALL.prefix):
        assert shown[NAMES, prefix]["waits a step"] < shown[(), prefix]["waits a step"]
    for on in ((), NAMES):
        assert shown[on, 0]["% of prompts from a cache"] == 0
        assert 0 < shown[on, SMALL.prefix]["% of prompts from a cache"] < 100


def test_the_source_says_whether_times_are_modelled(accelerator, runs):
    word = "modelled" if accelerator.modelled else "measured"
    assert all(word in run.source for run in runs.values())


@pytest.mark.deep
def test_a_recording_is_kept_for_each_choice_and_found_again(accelerator, narrow_llama, recordings):
    with schedule_only(accelerator, dashboard.TOKENS | dashboard.TABLES):
        kept = dict(recording.record_all(accelerator, Model(narrow_llama, accelerator.device)))
    for name, timeline in kept.items():
        timeline.save(recordings / f"engine_{name}.json")
    shown = set()
    for batch, on in product((1, 2), ((), ("sync_free",), ("flex_full_graph",), recorded.TOGGLES)):
        run = recorded.recorded(frozenset(on), {"batch": batch})
        counts = run.timeline.counts()
        assert run.figures["tokens"] == recording.STEPS * batch
        assert run.source.startswith("recorded on ")
        assert (counts["h2d_pageable"] == 0) == ("sync_free" in on)
        assert (counts["graph_launches"] == recording.STEPS) == ("flex_full_graph" in on)
        shown.add(recording.name_of(frozenset(on), batch))
    assert shown == set(kept)


def test_a_choice_that_no_gpu_has_recorded_is_a_missing_file(recordings):
    with pytest.raises(TraceFileError, match="engine_llama_3_8b_4_sync_free"):
        recorded.recorded(frozenset({"sync_free"}), {"batch": 4})


@pytest.mark.sim
@pytest.mark.deep
@pytest.mark.parametrize("on", [(), NAMES], ids=["none", "all"])
def test_a_picture_without_arithmetic_is_the_picture_with_it(accelerator, model, on):
    """A recording without arithmetic has the same events, times, bytes and lines as one with it,
    since no event of a moment depends on a computed number."""

    def events(schedule_only):
        recorded = dashboard.record_moment(
            accelerator, SMALL, Optimizations.only(on), model, schedule_only=schedule_only
        )
        return [
            (event.kind, event.name, event.lane, event.bytes, round(event.start - first, 6))
            for first in [recorded.timeline.events[0].start]
            for event in recorded.timeline.events
        ]

    assert events(True) == events(False)


START = {name: values[1] for name, values in dashboard.SLIDERS.items()}


@pytest.mark.sim
@pytest.mark.deep(4)
@pytest.mark.parametrize("slider", dashboard.SLIDERS)
def test_every_slider_changes_what_is_seen(slider):
    lengths = [
        dashboard.run(frozenset(), {**START, slider: value}).timeline.length
        for value in dashboard.SLIDERS[slider]
    ]
    for shorter, longer in pairwise(lengths):
        assert longer > 1.009 * shorter, lengths


@pytest.mark.sim
@pytest.mark.deep(4)
@pytest.mark.parametrize("slider", dashboard.SLIDERS)
def test_with_all_on_every_slider_still_changes_what_is_moved(slider):
    """Each slider changes the number of moved bytes by 5 % at least, even with all optimisations
    on, which hide most of the work."""
    first, *_, last = dashboard.SLIDERS[slider]
    less, more = (
        sum(event.bytes for event in dashboard.run(frozenset(NAMES), at).timeline.events)
        for at in ({**START, slider: first}, {**START, slider: last})
    )
    assert more > 1.05 * less


@pytest.mark.sim
@pytest.mark.parametrize("on", [(), NAMES], ids=["none", "all"])
def test_a_changed_control_runs_only_kernels_whose_numbers_are_read(monkeypatch, on):
    """A run of the dashboard interprets no Triton kernels but those of tokens and tables, which
    decide what comes next. So a changed control is answered at once."""
    ran, guarded = set(), launches.guarded

    def noted(call, tensors, name):
        ran.add(name)
        return guarded(call, tensors, name)

    monkeypatch.setattr(launches, "guarded", noted)
    dashboard.run(frozenset(on), dict(START))
    assert dashboard.TOKENS <= ran <= dashboard.TOKENS | dashboard.TABLES
