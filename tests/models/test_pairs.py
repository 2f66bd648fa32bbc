"""Each pair of features of models and engine gives the tokens of transformers."""

import pytest
import torch

from solutions.models import from_pretrained
from tests.deep import all_run

from .tiny import make, prompt_of

pytest.importorskip("transformers")
pytest.importorskip("allpairspy")

from .pairs import TOKENS, cases_of  # it needs allpairspy

ORDERS = 13
"""The number of covers, each with other cases: 500 or more together."""
LENGTHS = (37, 21, 9)


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        orders = ORDERS if all_run(metafunc.config) else 1
        cases = [case for order in range(orders) for case in cases_of(order)]
        cases = list(dict.fromkeys(cases))
        metafunc.parametrize("case", cases, ids=str)


@pytest.fixture(scope="module")
def checkpoint_of(tmp_path_factory):
    """Returns a function that returns the checkpoint of a case, made on first use."""
    made = {}

    def of(case):
        key = case.family, repr(case.changes)
        if key not in made:
            made[key] = make(case.family, tmp_path_factory.mktemp("pairs"), **case.changes)
        return made[key]

    return of


@torch.no_grad()
def right_answer(checkpoint, prompt, params):
    """Returns the answer of transformers. A choice among one token is a greedy one."""
    wanted = {"repetition_penalty": params.repetition_penalty}
    if params.bad_words:
        wanted["bad_words_ids"] = [list(word) for word in params.bad_words]
    answer = checkpoint.model.generate(
        torch.tensor([prompt]), max_new_tokens=TOKENS, do_sample=False, **wanted
    )
    return answer[0, len(prompt) :].tolist()


@pytest.mark.deep(40)
def test_a_pair_of_features_answers_as_transformers(accelerator, checkpoint_of, case):
    checkpoint = checkpoint_of(case)
    # transformers takes the prompt's end for the beginning of a bad word too.
    prompts = [[*prompt_of(length, length), 1] for length in LENGTHS[: case.requests]]
    right = [right_answer(checkpoint, prompt, case.params) for prompt in prompts]
    engine = from_pretrained(checkpoint.folder, case.optimizations, **case.sizes)
    assert engine.generate(prompts, case.params) == right
    if case.prefix == "none":
        assert engine.stats().hit_rate == 0
        return
    if case.prefix == "host":
        engine.reset_prefix_cache()
    assert engine.generate(prompts, case.params) == right
    assert engine.stats().hit_rate > 0
