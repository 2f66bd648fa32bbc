"""Sampled tokens: their distribution, the seeds that decide them, and what sampling costs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import debubble
from solutions.engine import Engine, SamplingParams
from solutions.engine.requests.workload import Asked
from solutions.engine.sampling import choose
from solutions.engine.sampling.choose import CountTables, choose_tokens
from solutions.engine.sampling.wishes import FIRST, FLOATS, WIDTH, Column

from .setting import ALL, WITHOUT, add, serve, tokens_of

VOCABULARY = 13
DRAWS = 40_000
LOGITS = np.random.default_rng(5).normal(0, 1.5, VOCABULARY).astype(np.float32)


def draw(accelerator, logits, num_rows, tables=None, seeds=None, **wished):
    """Returns the sampled tokens of num_rows rows, [num_rows], all with the same logits and
    sampling parameters `wished`. Rows differ in their position, or in their seed if `seeds` is
    given."""
    plain = SamplingParams(**{"temperature": 1.0} | wished)
    wishes = np.zeros((num_rows, WIDTH), np.int32)
    for column, name in FLOATS.items():
        wishes[:, column] = np.float32(getattr(plain, name)).view(np.int32)
    wishes[:, Column.TOP_K] = plain.top_k or 0
    wishes[:, Column.POSITION] = 7 if seeds is not None else np.arange(num_rows)
    wishes[:, Column.SEED_LOW] = 0 if seeds is None else seeds
    wishes[:, Column.COUNTED_IN] = 2 if tables else 0
    device = accelerator.device
    vocab_size = len(logits)
    tables = tables or CountTables.zeros(1, 4, vocab_size, device)
    rows = torch.from_numpy(np.broadcast_to(logits, (num_rows, vocab_size)).copy()).to(device)
    slots = torch.zeros(num_rows, dtype=torch.int32, device=device)
    last = torch.zeros(2, dtype=torch.int64, device=device)
    found = choose_tokens(rows, torch.from_numpy(wishes).to(device), slots, tables, last, FIRST)
    return found.cpu().numpy()


def oracle(logits, temperature=1.0, top_k=None, top_p=1.0, min_p=0.0):
    """Returns [vocab_size] float64: the probability with which each token should be sampled,
    computed by sorting."""
    scaled = logits.astype(np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    order = np.argsort(-weights, kind="stable")
    kept = np.zeros(len(logits), bool)
    kept[order[:top_k]] = True
    weights = np.where(kept, weights, 0)
    before = np.cumsum(weights[order]) - weights[order]
    kept[order[before >= top_p * weights.sum()]] = False
    weights = np.where(kept & (weights >= min_p * weights.max()), weights, 0)
    return weights / weights.sum()


def chi_square(counts, probabilities):
    expected = probabilities * counts.sum()
    possible = expected > 0
    assert not counts[~possible].any(), "a token that must not be chosen"
    return float(((counts - expected)[possible] ** 2 / expected[possible]).sum())


WISHES = {
    "temperature": {"temperature": 0.7},
    "all": {"temperature": 1.5, "top_k": 9, "top_p": 0.9, "min_p": 0.05},
    "top_k": {"top_k": 4},
    "top_p": {"top_p": 0.8, "temperature": 1.3},
    "min_p": {"min_p": 0.2},
}
MOST = 45.0
"""The limit for chi-square with 12 degrees of freedom: one random value in 100,000 is larger."""


@pytest.mark.deep(5)
@pytest.mark.parametrize("name", WISHES)
def test_draws_are_distributed_as_numpy_says(accelerator, name, monkeypatch):
    monkeypatch.setattr(choose, "TILE", 1 << 18 if accelerator.modelled else choose.TILE)
    tokens = draw(accelerator, LOGITS, DRAWS, **WISHES[name])
    counts = np.bincount(tokens, minlength=VOCABULARY)
    assert counts.sum() == DRAWS
    assert chi_square(counts, oracle(LOGITS, **WISHES[name])) < MOST


def test_seeds_are_as_different_as_positions(accelerator, monkeypatch):
    monkeypatch.setattr(choose, "TILE", 1 << 18 if accelerator.modelled else choose.TILE)
    tokens = draw(accelerator, LOGITS, 20_000, seeds=np.arange(20_000))
    assert chi_square(np.bincount(tokens, minlength=VOCABULARY), oracle(LOGITS)) < MOST


@pytest.mark.parametrize("vocab_size", [1, 33, 600], ids="{} tokens".format)
def test_vocabularies_of_any_size_in_tiles(accelerator, vocab_size, monkeypatch):
    monkeypatch.setattr(choose, "TILE", 512)
    logits = np.random.default_rng(vocab_size).normal(0, 1, vocab_size).astype(np.float32)
    logits[-1] = 4.0
    greedy = draw(accelerator, logits, 3, temperature=0.0)
    assert greedy.tolist() == [int(logits.argmax())] * 3
    kept = min(3, vocab_size)
    tokens = draw(accelerator, logits, 16, top_k=3, temperature=9.0)
    assert set(tokens.tolist()) == set(np.argsort(-logits)[:kept].tolist())
    logits[: vocab_size // 2] -= 1.0
    possible = np.flatnonzero(oracle(logits, top_p=0.5, temperature=3.0))
    tokens = draw(accelerator, logits, 9, top_p=0.5, temperature=3.0)
    assert set(tokens.tolist()) <= set(possible.tolist())


def test_the_colder_it_is_the_more_often_the_first_is_drawn(accelerator):
    cold, warm = (draw(accelerator, LOGITS, 100, temperature=t) for t in (0.01, 20.0))
    assert {*cold.tolist()} == {int(LOGITS.argmax())}
    assert len({*warm.tolist()}) > VOCABULARY // 2


@pytest.mark.parametrize("top_p", [0.5, 0.8])
def test_no_more_is_drawn_than_has_top_p_together(accelerator, top_p):
    possible = np.flatnonzero(oracle(LOGITS, top_p=top_p))
    tokens = draw(accelerator, LOGITS, 200, top_p=top_p)
    assert 1 < len(possible) < VOCABULARY
    assert {*tokens.tolist()} == {*possible.tolist()}


def test_what_ties_is_kept_and_the_smallest_id_is_the_most_likely(accelerator):
    logits = np.array([0.0, 2.0, 1.0, 2.0, 2.0, -np.inf], np.float32)
    assert draw(accelerator, logits, 2, temperature=0.0).tolist() == [1, 1]
    tokens = draw(accelerator, logits, 200, top_k=2)
    assert set(tokens.tolist()) == {1, 3, 4}
    assert 5 not in draw(accelerator, logits, 200, temperature=50.0)


def test_penalties_are_those_of_numpy(accelerator):
    """Penalties change the logits as NumPy computes it, for a request that has sampled token 0 once
    and token 2 twice, after a prompt with token 1."""
    logits = np.array([1.0, 1.0, 1.2, -0.5, 0.9, -0.4], np.float32)
    tables = CountTables.zeros(1, 4, len(logits), accelerator.device)
    tables.output_bin_counts[0, 0], tables.output_bin_counts[0, 2] = 1, 2
    tables.prompt_bin_mask[0, 0] = 1 << 1
    for wished in (
        {"presence_penalty": 0.5},
        {"frequency_penalty": 0.2},
        {"repetition_penalty": 1.5},
        {"presence_penalty": -0.3, "frequency_penalty": 0.1, "repetition_penalty": 0.8},
    ):
        said = np.array([1, 0, 2, 0, 0, 0])
        there = np.array([1, 1, 1, 0, 0, 0], bool)
        factor = wished.get("repetition_penalty", 1.0)
        right = np.where(there, np.where(logits > 0, logits / factor, logits * factor), logits)
        right = right - wished.get("frequency_penalty", 0) * said
        right = right - wished.get("presence_penalty", 0) * (said > 0)
        (token,) = draw(accelerator, logits, 1, tables, temperature=0.0, **wished)
        assert token == right.argmax()
        assert tables.output_bin_counts[0].tolist() == said.tolist(), "it is not counted here"
        assert not tables.token_ids.any(), "nor kept, without a position"


def wished(setting, length, number=0, **sampling):
    """Returns a request with prompt number `number` of `length` tokens and these sampling
    parameters."""
    return Asked(setting.prompt(length, number), SamplingParams(**sampling))


CHANCE = {"temperature": 1.2, "top_k": 40, "top_p": 0.95, "min_p": 0.01}
PENALTIES = {"presence_penalty": 0.6, "frequency_penalty": 0.4, "repetition_penalty": 1.2}


def test_a_seed_says_the_same_in_any_batch(attention_only):
    sampled = wished(attention_only, 12, 1, max_tokens=6, seed=99, **CHANCE)
    counted = wished(attention_only, 9, 4, max_tokens=6, seed=2**62 + 5, **CHANCE, **PENALTIES)
    alone = [serve(attention_only.engine(), [asked])[0].token_ids for asked in (sampled, counted)]
    # If a word is forbidden, all rows of the step are sampled a second time.
    words = [{}, {"bad_words": [[5]]}, {}]
    others = [
        wished(attention_only, 5 + n, 7 + n, max_tokens=3 + n, **CHANCE, **words[n])
        for n in range(3)
    ]
    together = [others[0], counted, others[1], sampled, others[2]]
    outputs = tokens_of(serve(attention_only.engine(), together))
    assert [outputs[3], outputs[1]] == alone
    greedy = replace(sampled, sampling=SamplingParams(max_tokens=6))
    assert alone[0] != attention_only.answer(greedy), "chance has a say"


def test_both_sides_of_sync_free_say_the_same_and_seeds_differ(attention_only):
    def answers(optimizations, seed):
        all_asked = [
            wished(attention_only, 9, n, max_tokens=5, seed=seed + n, **CHANCE, **PENALTIES)
            for n in range(3)
        ]
        return tokens_of(serve(attention_only.engine(optimizations), all_asked))

    assert answers(ALL, 1) == answers(WITHOUT["sync_free"], 1) != answers(ALL, 50)


@pytest.mark.deep
def test_a_preempted_request_says_the_same(attention_only):
    """A preempted request samples the same tokens as without preemption: its penalty counts restart
    with it. (Three requests compete for three blocks.)"""
    config = attention_only.config
    crowded = replace(config, limits=replace(config.limits, num_gpu_blocks=4))
    all_asked = [
        wished(attention_only, 14, n, max_tokens=5, seed=n, **CHANCE, **PENALTIES) for n in range(3)
    ]
    engine = attention_only.engine(ALL, crowded)
    outputs = tokens_of(serve(engine, all_asked))
    assert engine.scheduler.num_preemptions > 0
    assert outputs == tokens_of(serve(attention_only.engine(), all_asked))


def test_penalties_end_what_a_greedy_answer_repeats(attention_only):
    """Greedy answers with penalties equal those of the reference's logits with NumPy's
    penalties."""
    asked = wished(attention_only, 6, 3, max_tokens=7, **PENALTIES)
    (output,) = serve(attention_only.engine(), [asked])
    prompt, said = asked.prompt.tokens, []
    for _ in range(7):
        logits = attention_only.reference.logits([*prompt, *said])[-1].numpy()
        there = np.isin(np.arange(len(logits)), [*prompt, *said])
        counts = np.bincount(said, minlength=len(logits)) if said else np.zeros(len(logits))
        scaled = np.where(logits > 0, logits / np.float32(1.2), logits * np.float32(1.2))
        logits = np.where(there, scaled, logits) - 0.4 * counts - 0.6 * (counts > 0)
        said.append(int(logits.argmax()))
    assert output.token_ids == said


def test_a_forbidden_word_is_counted_never_and_what_is_said_instead_once(attention_only):
    plain = wished(attention_only, 12, 1, max_tokens=5, seed=3, **CHANCE, **PENALTIES)
    (first,) = serve(attention_only.engine(), [plain])
    forbids = replace(plain.sampling, bad_words=[first.token_ids[:1]])
    engine = attention_only.engine()
    (output,) = serve(engine, [replace(plain, sampling=forbids)])
    counts = engine.runner.inputs.tables.output_bin_counts.cpu()
    assert first.token_ids[0] not in output.token_ids
    said = torch.bincount(torch.tensor(output.token_ids), minlength=counts.shape[1])
    assert any(torch.equal(row, said.to(torch.int32)) for row in counts)


@pytest.mark.sim
def test_a_steady_step_with_every_wish_is_one_upload_and_one_graph(accelerator, attention_only):
    engine = attention_only.engine()
    for number in range(4):
        wishes = [{}, CHANCE, PENALTIES, CHANCE | PENALTIES][number]
        stops = {"stop_tokens": [63], "seed": number}
        add(engine, wished(attention_only, 8, number, max_tokens=20, **stops, **wishes))
    for _ in range(3):
        engine.step()
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        engine.step()
    counts = timeline.counts()
    assert timeline.hazards == []
    assert (counts["host_syncs"], counts["graph_launches"]) == (0, 1)
    assert (counts["h2d_pageable"], counts["h2d_pinned"], counts["d2h"]) == (0, 1, 1)


def test_stop_tokens_end_an_answer(attention_only):
    free = attention_only.answer(wished(attention_only, 12, 1, max_tokens=8))
    asked = wished(attention_only, 12, 1, max_tokens=8, stop_tokens=[free[3], free[2]])
    (output,) = serve(attention_only.engine(), [asked])
    assert (output.token_ids, output.finish_reason) == (free[:3], "stop")


@pytest.mark.parametrize(
    "wished, said",
    [
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 1e-9}, "temperature is 1e-09"),
        ({"temperature": torch.ones(1)}, "temperature is a Tensor"),
        ({"temperature": True}, "temperature is True"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_k": 2.5}, "top_k is 2.5"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_p": 1.1}, "top_p is 1.1"),
        ({"min_p": "0.1"}, "min_p is '0.1'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**63}, "seed is 9223372036854775808"),
        ({"seed": 1.0}, "seed is 1.0"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0"),
        ({"presence_penalty": float("inf")}, "presence_penalty is inf"),
        ({"stop_tokens": [64]}, "names token 64"),
        ({"stop_tokens": ["a"]}, "names token 'a'"),
    ],
    ids=str,
)
def test_what_chance_can_not_be_asked_is_refused_when_it_comes(attention_only, wished, said):
    engine: Engine = attention_only.engine()
    with pytest.raises(ValueError) as refusal:
        engine.add_request([1, 2], SamplingParams(**wished), request_id="mine")
    assert "'mine'" in str(refusal.value) and said in str(refusal.value)
    assert not engine.requests


def test_without_a_seed_each_request_has_one_of_its_own(attention_only):
    engine = attention_only.engine()
    names = [engine.add_request([1], SamplingParams(temperature=1.0)) for _ in range(2)]
    first, second = (engine.request(name).sampling.seed for name in names)
    assert first is not None and second is not None and first != second
