"""The five optimisations change when things happen, and never the answers."""

from dataclasses import replace
from itertools import product

import pytest

import debubble
from solutions.common.staging_ring import StagingRing
from solutions.engine import Optimizations

from .setting import Setting, mixed_requests, prefixes_used, serve, small, tokens_of


@pytest.fixture(scope="module")
def crowded(accelerator):
    """Returns a Setting in which 12 requests have to share 5 blocks."""
    limits, shape = {"num_gpu_blocks": 6}, {"num_heads": 1}
    return Setting.of(small(limits=limits, model=shape, num_cpu_blocks=32), accelerator)


@pytest.fixture(scope="module")
def all_asked(crowded):
    return mixed_requests(crowded.config.model, 12, seed=10)


@pytest.fixture(scope="module")
def right(crowded, all_asked):
    return crowded.answers(all_asked)


@pytest.mark.deep(15)
@pytest.mark.parametrize("optimizations", Optimizations.combinations(), ids=str)
def test_every_combination_answers_as_the_reference_does(
    accelerator, crowded, all_asked, right, optimizations
):
    engine = crowded.engine(optimizations)
    used = prefixes_used(engine)
    with debubble.record(accelerator) as timeline:
        outputs = serve(engine, all_asked)
    assert tokens_of(outputs) == right
    assert timeline.hazards == []
    assert [note for output in outputs for note in output.notes] == []
    assert timeline.counts()["graph_launches"] > 0
    assert engine.scheduler.num_preemptions > 0
    assert any(prefix.gpu_blocks for prefix in used), "nothing was found on the device"
    assert any(prefix.needs_load for prefix in used), "nothing came from host memory"


def test_what_fills_a_graph_changes_no_answer(hybrid):
    """Steps run in graphs for 4 requests or for 32 tokens: most have rows and tokens of padding."""
    config = replace(hybrid.config, capture_sizes=(4,), prefill_sizes=(32,))
    asked = [
        hybrid.asked(length, length, max_tokens=tokens)
        for length, tokens in ((18, 12), (7, 3), (5, 6))
    ]
    assert tokens_of(serve(hybrid.engine(config=config), asked)) == hybrid.answers(asked)


CONDITIONS = {
    "a prefix wholly in host memory": {"num_cpu_blocks": 16},
    "padded graphs": {"capture_sizes": (4,), "prefill_sizes": (64,)},
    "drafts": {"num_drafts": 2},
    "chunks": {"limits": {"max_num_batched_tokens": 16}},
    "a full pool": {"limits": {"num_gpu_blocks": 6}, "model": {"num_heads": 1}},
    "rings of one slot": {},
}


@pytest.fixture(scope="module")
def under(accelerator):
    """Returns a function that returns (Setting, requests, right answers) of a condition."""
    made = {}

    def of(condition):
        if condition not in made:
            pattern = ("spans", "flex") if condition == "drafts" else ()
            setting = Setting.of(small(*pattern, **CONDITIONS[condition]), accelerator)
            asked = mixed_requests(setting.config.model, 6, seed=3)
            asked.append(setting.asked(33, max_tokens=5))
            if condition == "a full pool":
                asked += [setting.asked(15, seed, max_tokens=10) for seed in (1, 2, 3)]
            made[condition] = setting, asked, setting.answers(asked)
        return made[condition]

    return of


@pytest.mark.deep(96)
@pytest.mark.parametrize(
    "condition, optimizations", [*product(CONDITIONS, Optimizations.combinations())], ids=str
)
def test_every_combination_answers_under_each_condition(
    under, monkeypatch, condition, optimizations
):
    setting, asked, right = under(condition)
    if condition == "rings of one slot":
        init = StagingRing.__init__
        one = lambda ring, shape, dtype, depth: init(ring, shape, dtype, 1)
        monkeypatch.setattr(StagingRing, "__init__", one)
    engine = setting.engine(optimizations)
    if engine.offloader:
        serve(engine, asked)
        engine.reset_prefix_cache()
    assert tokens_of(serve(engine, asked)) == right
    if condition == "a full pool":
        assert engine.scheduler.num_preemptions > 0
