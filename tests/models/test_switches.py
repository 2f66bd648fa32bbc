"""The five optimisations change no token of a checkpoint, whichever its family."""

from itertools import product

import pytest

from solutions.engine import Optimizations, SamplingParams
from solutions.models import from_pretrained

from .tiny import FAMILIES, make, prompt_of

pytest.importorskip("transformers")
SIZES = {"max_model_len": 64, "max_num_seqs": 2, "max_num_batched_tokens": 16}
PROMPTS = (21, 9, 5)


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    """Returns a function that takes a family's name and returns (checkpoint folder, transformers'
    answers to PROMPTS), made on first use."""
    made = {}

    def of(family):
        if family not in made:
            checkpoint = make(family, tmp_path_factory.mktemp(family))
            answers = [checkpoint.greedy(prompt_of(length, length), 4) for length in PROMPTS]
            made[family] = checkpoint.folder, answers
        return made[family]

    return of


@pytest.mark.deep(91)
@pytest.mark.parametrize(
    "family, optimizations", product(FAMILIES, Optimizations.combinations()), ids=str
)
def test_every_combination_answers_as_transformers(accelerator, right, family, optimizations):
    folder, answers = right(family)
    engine = from_pretrained(folder, optimizations, num_cpu_blocks=8, **SIZES)
    prompts = [prompt_of(length, length) for length in PROMPTS]
    assert engine.generate(prompts, SamplingParams(max_tokens=4)) == answers


@pytest.mark.deep(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_graphs_of_prompts_answer_as_transformers(accelerator, right, family):
    folder, answers = right(family)
    engine = from_pretrained(folder, prefill_sizes=(8, 16), **SIZES)
    prompts = [prompt_of(length, length) for length in PROMPTS]
    assert engine.generate(prompts, SamplingParams(max_tokens=4)) == answers
