"""A checkpoint of each family gives the logits of transformers' own forward."""

import pytest
import torch

from solutions.engine import SamplingParams
from solutions.models import from_pretrained

from .tiny import FAMILIES, make, prompt_of

pytest.importorskip("transformers")
SIZES = {"max_model_len": 128, "max_num_seqs": 2, "max_num_batched_tokens": 16}
"""Limits of the engine under which a prompt of 45 tokens takes several steps."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Returns a function that takes a family's name and returns its checkpoint, which is made on
    first use."""
    made = {}

    def of(family):
        if family not in made:
            made[family] = make(family, tmp_path_factory.mktemp(family), shard="20KB")
        return made[family]

    return of


def logits_of(engine, prompt, num_tokens):
    """Returns the tokens of the engine's greedy answer, and the logits of all its samples, in
    order."""
    seen = []
    sample = engine.runner.sampler.sample

    def noted(rows, sampled):
        seen.append(sampled.logits.cpu().float())
        return sample(rows, sampled)

    engine.runner.sampler.sample = noted
    (tokens,) = engine.generate([prompt], SamplingParams(max_tokens=num_tokens))
    return tokens, torch.cat([each for each in seen if len(each)])


def error(found, right):
    """Returns the norm of the difference of two tensors of logits, relative to the size of all
    logits."""
    return ((found - right).norm() / right.norm()).item()


def expect_the_same(checkpoint, num_decodes):
    """Checks the engine's logits and tokens against transformers, for a prompt of 45 tokens that
    runs in chunks and for `num_decodes` decode steps."""
    prompt = prompt_of(45)
    engine = from_pretrained(checkpoint.folder, **SIZES)
    tokens, logits = logits_of(engine, prompt, 1 + num_decodes)
    right = checkpoint.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
    assert error(logits[: len(right)], right) < 1e-3
    assert tokens == checkpoint.greedy(prompt, 1 + num_decodes)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_and_greedy_tokens_are_those_of_transformers(accelerator, tiny, family):
    expect_the_same(tiny(family), num_decodes=8)


@pytest.mark.deep
@pytest.mark.parametrize("family", FAMILIES)
def test_they_still_are_after_64_decode_steps(accelerator, tiny, family):
    expect_the_same(tiny(family), num_decodes=64)


@pytest.mark.deep(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_in_bfloat16_logits_are_those_of_the_same_weights_in_float32(
    accelerator, tiny, family, tmp_path
):
    checkpoint = tiny(family)
    if family == "qwen3_next":
        # Each token uses all experts: otherwise rounding could change a router's choice
        # between equals.
        checkpoint = make(family, tmp_path, num_experts_per_tok=5)
    prompt = prompt_of(30)
    engine = from_pretrained(checkpoint.folder, dtype=torch.bfloat16, **SIZES)
    tokens, logits = logits_of(engine, prompt, 6)
    weights = {name: weight.clone() for name, weight in checkpoint.model.state_dict().items()}
    try:
        for weight in checkpoint.model.state_dict().values():
            weight.copy_(weight.bfloat16())
        right = checkpoint.logits([*prompt, *tokens])[len(prompt) - 1 : -1]
    finally:
        checkpoint.model.load_state_dict(weights)
    assert error(logits, right) < 2e-2
