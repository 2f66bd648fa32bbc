"""The sites of sync_free in the engine, after and before the change: results are equal, and before
the change the host waits."""

from dataclasses import replace

import pytest
import torch

import debubble
from solutions.engine import Engine, Model, SamplingParams
from solutions.engine.model.architecture import Architecture
from solutions.sync_free.before import (
    bad_words,
    chosen_tokens,
    conv_metadata,
    kv_sharing,
    ngram,
    penalties,
    token_types,
)

from .setting import ALL, WITHOUT, Setting, add, small

BEFORE = WITHOUT["sync_free"]


@pytest.fixture(scope="module")
def pooling(accelerator):
    architecture = Architecture(token_types=2)
    return Setting.of(small("spans", "flex", model={"architecture": architecture}), accelerator)


def prompts(setting, lengths=(9, 4, 17, 6, 12)):
    return [setting.prompt(length, length).tokens for length in lengths]


def waits(accelerator, run):
    """Returns (result of `run`, paths of the files in which the host waited). On a GPU `run`
    is warmed up by a first call."""
    if not accelerator.modelled:
        run()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        found = run()
    assert timeline.hazards == []
    syncs = [event for event in timeline.events if event.kind == "sync"]
    return found, [event.source.file for event in syncs]


@pytest.mark.sim
def test_token_types_of_a_pooling_model(accelerator, pooling):
    """A pooling model's result is the same with sync_free's token types, where the host doesn't
    wait, and without, where it waits seven times. (The requests need two steps.)"""
    starts = {0: 3, 2: 0, 4: 12}
    found = {}
    for optimizations in (ALL, BEFORE):
        engine = pooling.engine(optimizations)
        run = lambda engine=engine: engine.pool(prompts(pooling), starts)
        found[optimizations], places = waits(accelerator, run)
        assert places.count(token_types.__file__) == (0 if optimizations is ALL else 7)
    assert torch.equal(found[ALL], found[BEFORE])


def test_pooled_texts_are_those_of_the_reference(accelerator):
    setting = Setting.of(small("spans", "flex"), accelerator)
    texts = prompts(setting)
    found = setting.engine().pool(texts) @ setting.reference.weights["lm_head"].T
    right = torch.stack([setting.reference.logits(text)[-1] for text in texts])
    assert torch.allclose(found, right, atol=1e-4)


def test_a_token_of_the_second_text_is_embedded_as_such(accelerator, pooling):
    """Tokens from `start` on get the embedding of the second text: a start of 0 equals a model with
    this embedding added to all tokens, and a start at the end changes nothing."""
    text = prompts(pooling)[:1]
    other = Model(pooling.config, accelerator.device)
    other.embedding = pooling.model.embedding + pooling.model.token_types[1]
    other.token_types = torch.zeros_like(pooling.model.token_types)
    right = Engine(pooling.config, model=other).pool(text)
    engine = pooling.engine()
    found = [engine.pool(text, {0: start}) for start in (0, 5, len(text[0]))]
    assert torch.allclose(found[0], right, atol=1e-5)
    assert not torch.allclose(found[1], found[0], atol=1e-3)
    assert torch.equal(found[2], engine.pool(text))


def test_pooling_leaves_nothing_behind(accelerator, pooling):
    engine = pooling.engine()
    text = prompts(pooling, (33,))
    free = engine.scheduler.blocks.num_free
    engine.pool(text, {0: 4})
    assert engine.scheduler.blocks.num_free == free
    name = engine.add_request(text[0], SamplingParams(max_tokens=1))
    (output,) = engine.run()
    assert (output.request_id, output.num_cached) == (name, 0)


@pytest.mark.parametrize(
    "starts, said",
    [({5: 0}, "prompt 5"), ({0: 10}, "10 for prompt 0"), ({0: -1}, "-1"), ({0: 1.5}, "1.5")],
    ids=str,
)
def test_starts_that_are_none_are_refused(pooling, starts, said):
    with pytest.raises(ValueError, match=said):
        pooling.engine().pool(prompts(pooling), starts)


def test_what_can_not_be_pooled_is_refused(attention_only, pooling):
    with pytest.raises(ValueError, match="no token types"):
        attention_only.engine().pool([[1, 2]], {0: 1})
    tight = replace(pooling.config, limits=replace(pooling.config.limits, max_num_batched_tokens=8))
    with pytest.raises(ValueError, match="prompt 1 has 9 tokens"):
        pooling.engine(ALL, tight).pool([[1], [1] * 9])
    engine = pooling.engine()
    engine.add_request([1])
    with pytest.raises(ValueError, match="being served"):
        engine.pool([[1]])
    engine.run()
    assert engine.pool([]).shape == (0, pooling.config.model.hidden_size)


WISHES = {
    "bad words": ({"bad_words": [[1], [2], [3], [4], [5]]}, bad_words),
    "logprobs": ({"logprobs": [1, 2]}, chosen_tokens),
    "penalties": ({"presence_penalty": 1.0}, penalties),
    "their tokens": ({"presence_penalty": 1.0}, ngram),
    "rows to the end": ({}, kv_sharing),
    "convolution": ({}, conv_metadata),
}


@pytest.fixture(scope="module")
def engines(hybrid):
    """Returns {optimizations: engine} with sync_free and without."""
    return {optimizations: hybrid.engine(optimizations) for optimizations in (ALL, BEFORE)}


@pytest.mark.sim
@pytest.mark.parametrize("site", WISHES)
def test_a_prompt_waits_at_each_site_as_it_was_and_nowhere_now(accelerator, engines, hybrid, site):
    sampling, module = WISHES[site]
    answers = []
    for optimizations, engine in engines.items():
        asked = hybrid.asked(12, 1, max_tokens=2, **sampling)
        engine.request(add(engine, asked))
        _, places = waits(accelerator, lambda engine=engine: engine.step())
        if optimizations is ALL:
            assert places == []
        else:
            assert module.__file__ in places
        answers.append(engine.run()[0].token_ids)
    assert answers[0] == answers[1]
