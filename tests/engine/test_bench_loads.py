"""The benchmark's loads on engines: they fit, are new each time, and are what they claim."""

from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import pytest

from solutions.engine import NAMES, EngineConfig, Optimizations, RequestOutput, SamplingParams
from solutions.engine.measure import shared_prefixes
from solutions.engine.measure.latency import batch_of
from solutions.engine.measure.presets import PrefixPreset, ServingPreset
from solutions.engine.measure.steps import Decodes
from solutions.engine.measure.throughput import Rate, median_of, serve_as_they_arrive, waits_of
from solutions.engine.measure.variants import VARIANTS, Engines, all_but, optimizations_of, serve
from solutions.engine.requests.workload import (
    Asked,
    Prompt,
    evenly_spread,
    poisson_arrivals,
    varied_requests,
)

from .test_bench import tiny, tiny_prefixes

PRESETS = [ServingPreset.hybrid(), ServingPreset.hybrid_on_sim(), ServingPreset.llama_3_8b()]
NAMES_OF_PRESETS = ["hybrid", "hybrid_on_sim", "llama_3_8b"]
PREFIX_PRESETS = [PrefixPreset.tiny(), PrefixPreset.llama_3_70b_rank()]


def test_none_comes_first_then_each_alone_then_all():
    assert list(VARIANTS) == ["none", *NAMES, "all"]
    assert VARIANTS["sync_free"].names == ("sync_free",)
    assert optimizations_of("all") == Optimizations()


def test_all_but_one_is_a_variant_too():
    for name in NAMES:
        assert set(optimizations_of(all_but(name)).names) == set(NAMES) - {name}


def test_a_preset_is_the_config_that_it_was_made_of_with_one_graph():
    for config in (EngineConfig.hybrid(), EngineConfig.llama_3_8b()):
        preset = ServingPreset.of(
            config, latency_tokens=(1, 1), **dict.fromkeys(("runs",), 1), **NONE
        )
        assert preset.config == replace(config, capture_sizes=(8,))


NONE = {"num_requests": 1, "prompt_tokens": (1, 1), "new_tokens": (1, 1)}


@pytest.mark.parametrize("preset", PRESETS, ids=NAMES_OF_PRESETS)
def test_every_request_fits_the_model(preset):
    longest = preset.limits.max_model_len
    assert preset.prompt_tokens[1] + preset.new_tokens[1] <= longest
    assert sum(preset.latency_tokens) <= longest
    assert preset.batch * preset.prefill_tokens <= preset.limits.max_num_batched_tokens


@pytest.mark.parametrize("preset", PREFIX_PRESETS, ids=["tiny", "llama_3_70b_rank"])
def test_prefixes_fit_into_host_memory_and_not_onto_the_device(preset):
    limits = preset.limits
    blocks = preset.prefix_tokens // limits.block_size
    assert preset.prefix_tokens % limits.block_size == 0
    assert preset.num_prefixes * blocks <= preset.num_cpu_blocks
    running = limits.pages_of(preset.prefix_tokens + 1 + preset.new_tokens)
    assert preset.num_prefixes * running > limits.num_gpu_blocks - 1
    assert limits.max_num_seqs * running <= limits.num_gpu_blocks - 1


def test_images_lie_in_the_middle_of_equal_parts():
    assert evenly_spread(21, 2, 4) == [(3, 6), (13, 16)]
    assert evenly_spread(5, 0, 9) == []
    with pytest.raises(ValueError, match="2 images of 11 tokens don't fit into 21"):
        evenly_spread(21, 2, 11)


def test_each_run_of_a_batch_has_prompts_of_its_own():
    first, second = (batch_of(ServingPreset.hybrid(), run, max_tokens=4) for run in (1, 2))
    prompts = {tuple(asked.prompt.tokens[:16]) for asked in first + second}
    assert len(prompts) == 16
    assert all(len(asked.prompt.images) == 1 for asked in first)


def varied(seed):
    model = EngineConfig.hybrid().model
    return varied_requests(model, 6, (4, 40), (1, 9), image_tokens=8, seed=[seed])


def test_varied_requests_differ_in_their_tokens_alone():
    first, second = varied(1), varied(2)
    for asked, other in zip(first, second, strict=True):
        assert len(asked.prompt.tokens) == len(other.prompt.tokens)
        assert asked.sampling == other.sampling
        assert asked.prompt.images == other.prompt.images
        assert asked.prompt.tokens != other.prompt.tokens
    assert len({len(asked.prompt.tokens) for asked in first}) > 3
    assert {len(asked.prompt.images) for asked in first} == {0, 1}


def test_arrivals_come_at_the_rate_and_at_an_infinite_one_at_once():
    arrivals = poisson_arrivals(4000, rate=5.0)
    assert arrivals == sorted(arrivals)
    assert arrivals[-1] == pytest.approx(4000 / 5.0, rel=0.05)
    assert poisson_arrivals(3, float("inf")) == [0.0, 0.0, 0.0]


class OneAfterAnother:
    """A stand-in for an engine, without a model: each step gives a token to the oldest request."""

    def __init__(self):
        self.waiting, self.ids = deque(), iter("abc")

    def add_request(self, tokens, sampling, images):
        request = SimpleNamespace(request_id=next(self.ids), generated=[], sampling=sampling)
        self.waiting.append(request)
        return request.request_id

    @property
    def has_work(self):
        return bool(self.waiting)

    @property
    def scheduler(self):
        return SimpleNamespace(running=list(self.waiting))

    def step(self):
        request = self.waiting[0]
        request.generated.append(0)
        if len(request.generated) < request.sampling.max_tokens:
            return []
        self.waiting.popleft()
        return [RequestOutput(request.request_id, request.generated, "length", 0, [], [])]


def test_waits_count_from_the_arrival_of_a_request():
    requests = [Asked(Prompt([1], []), SamplingParams(max_tokens=count)) for count in (1, 3)]
    waited = serve_as_they_arrive(OneAfterAnother(), requests, [0.0, 0.05])
    assert waited.all_requests >= 0.05
    assert waited.last_token[1] == pytest.approx(waited.all_requests - 0.05)
    assert waited.first_token[0] == waited.last_token[0]
    assert waited.first_token[1] < waited.last_token[1]
    waits = waits_of(waited)
    assert waits["first_token_ms"] == pytest.approx(sum(waited.first_token) / 2 * 1e3)
    assert waits["last_token_p95_ms"] <= max(waited.last_token) * 1e3


def test_several_runs_give_the_median_of_each_figure():
    runs = [Rate(1, float(rate), 2.0 * rate, first_token_ms=1.0 + rate) for rate in (1, 5, 3)]
    assert median_of(runs) == Rate(3, 3.0, 6.0, first_token_ms=4.0)


def test_an_engine_that_still_has_work_is_not_measured(accelerator):
    engine = OneAfterAnother()
    engine.add_request([1], SamplingParams(max_tokens=1), [])
    with pytest.raises(AssertionError, match="nothing else is being served"):
        serve(engine, [])


@pytest.fixture(scope="module")
def flex(accelerator):
    """Returns (preset, engine) for a model with one attention layer, whose requests reach the
    greatest length after four steps."""
    preset = tiny(accelerator.modelled)
    model = replace(preset.config.model, num_layers=1, pattern=("flex",))
    limits = replace(preset.limits, max_model_len=16)
    config = replace(preset.config, model=model, limits=limits, num_cpu_blocks=0)
    asked = {"latency_tokens": (1, 1), "cached_tokens": 12, "runs": 1}
    preset = ServingPreset.of(config, **asked, **NONE)
    return preset, Engines(preset.config, accelerator)["all"]


def test_decodes_begin_anew_before_a_request_is_at_its_end(flex):
    preset, engine = flex
    decodes = Decodes(engine, preset)
    decodes.ready(3)
    before = {request.request_id for request in engine.scheduler.running}
    decodes.row(2)
    assert {request.request_id for request in engine.scheduler.running} == before
    decodes.ready(3)
    assert before.isdisjoint(request.request_id for request in engine.scheduler.running)
    decodes.stop()
    assert not engine.has_work


def test_an_empty_step_is_no_decode(flex):
    preset, engine = flex
    with pytest.raises(AssertionError, match="a token to decode for every request"):
        Decodes(engine, preset).step()


def test_prefixes_that_are_found_on_the_device_are_refused(accelerator):
    preset = tiny_prefixes()
    roomy = replace(preset, limits=replace(preset.limits, num_gpu_blocks=8))
    with pytest.raises(RuntimeError, match=r"1 of 2 requests .* give the device fewer blocks"):
        shared_prefixes.measure_variants(accelerator, roomy, lambda: None)


def test_variants_that_generate_other_tokens_are_refused(accelerator, monkeypatch):
    answers = iter(([[1]], [[2]]))
    monkeypatch.setattr(shared_prefixes, "one_by_one", lambda *_: next(answers))
    with pytest.raises(
        RuntimeError, match=r"'all but offload_triton' and 'all' .* different tokens"
    ):
        shared_prefixes.measure_variants(accelerator, tiny_prefixes(), lambda: None)
