"""Requests that can't be served are refused with a reason, and change nothing."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from solutions.engine import Engine, EngineConfig, ModelConfig, Optimizations, SamplingParams
from solutions.engine.requests.new_request import new_request
from tests.instructions import instructions_of

from .setting import small
from .symbolic_device import check_blocks, symbolic_engine

V = 64
"""The number of token ids that stand for text; image ids follow, up to 95."""


@pytest.fixture
def engine(accelerator):
    engine = symbolic_engine(small())
    engine.add_request([1, 2, 3], request_id="served")
    return engine


def expect_refused(engine, kind, words, prompt, sampling=None, **request):
    requests, waiting = engine.requests, list(engine.scheduler.waiting)
    with pytest.raises(kind, match=words):
        engine.add_request(prompt, sampling, request_id="a", **request)
    assert engine.requests == requests
    assert list(engine.scheduler.waiting) == waiting
    check_blocks(engine)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([], "request 'a' has an empty prompt: give it a token at least"),
        ([1] * 60, "'a' has 60 tokens and asks for 16: a request has at most 64, so shorten"),
        ([1, -1], r"'a' has id -1 at position 1: text has ids in \[0, 64\)"),
        ([V], r"'a' has id 64 at position 0: text has ids in \[0, 64\)"),
        ([1, 2.0], r"'a' has id 2.0 at position 1"),
        ([True], "'a' has id True at position 0"),
    ],
)
def test_a_prompt_that_can_t_be_served(engine, prompt, words):
    expect_refused(engine, ValueError, words, prompt)


def test_a_text_is_checked_without_a_call_for_each_id():
    def checked(num_tokens):
        return instructions_of(
            lambda: new_request("a", [1] * num_tokens, (), SamplingParams(), small()),
            within="requests/new_request",
        )

    assert checked(8) == checked(48)


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"max_tokens": 0}, "'a' asks for 0 tokens: ask for at least 1"),
        ({"max_tokens": -3}, "'a' asks for -3 tokens"),
        ({"max_tokens": float("nan")}, "'a' asks for nan tokens"),
        ({"max_tokens": 2.5}, "'a' asks for 2.5 tokens"),
        ({"max_tokens": True}, "'a' asks for True tokens"),
        ({"max_tokens": "3"}, "'a' asks for '3' tokens"),
        ({"max_tokens": 99}, "'a' has 2 tokens and asks for 99: a request has at most 64"),
        ({"stop_token": V}, "'a' names token 64: the vocabulary has 0 to 63"),
        ({"stop_token": -1}, "'a' names token -1"),
        ({"logprobs": [0, V + 1]}, "'a' names token 65"),
        ({"logprobs": ["x"]}, "'a' names token 'x'"),
        ({"bad_words": [[1], [2, V]]}, "'a' names token 64"),
        ({"bad_words": [[1], []]}, "'a' has an empty bad word: give it an id at least"),
        ({"bad_words": [[token] for token in range(V)]}, "'a' forbids every token: leave one"),
    ],
)
def test_a_wish_that_can_t_be_granted(engine, sampling, words):
    expect_refused(engine, ValueError, words, [1, 2], SamplingParams(**sampling))


def without_addresses(value: object) -> str:
    """Returns str(value) without memory addresses. Test ids are made of it, and have to be equal in
    all of xdist's workers."""
    return re.sub(" at 0x[0-9a-f]+", "", str(value))


def read_once(*values):
    return (value for value in values)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (None, "'a': its prompt is None: give a list of ids"),
        (5, "'a': its prompt is 5: give a list of ids"),
        ("5", "'a': its prompt is '5': give a list of ids"),
        (read_once(1, 2), "'a': its prompt is a generator: give a list of ids"),
        ({1, 2}, "'a': its prompt is a set: give a list of ids"),
        (
            torch.tensor([1, 2]),
            r"'a': its prompt is a torch.int64 tensor \[2\] on cpu: give a list of ids",
        ),
    ],
    ids=without_addresses,
)
def test_a_prompt_that_is_no_list(engine, prompt, words):
    expect_refused(engine, TypeError, words, prompt)


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"logprobs": 5}, "'a': logprobs is 5: give a list of ids"),
        ({"logprobs": read_once(5)}, "'a': logprobs is a generator: give a list of ids"),
        (
            {"logprobs": torch.tensor([5])},
            r"'a': logprobs is a torch.int64 tensor",
        ),
        ({"bad_words": None}, "'a': bad_words is None: give a list of ids"),
        ({"bad_words": read_once([5])}, "'a': bad_words is a generator"),
        ({"bad_words": [5]}, "'a': a bad word is 5: give a list of ids"),
        ({"bad_words": [[1], read_once(5)]}, "'a': a bad word is a generator"),
    ],
    ids=without_addresses,
)
def test_wishes_that_are_no_lists(engine, sampling, words):
    expect_refused(engine, TypeError, words, [1, 2], SamplingParams(**sampling))


@pytest.mark.parametrize("images", [None, 3, read_once((0, 1))], ids=without_addresses)
def test_images_that_are_no_list(engine, images):
    words = r"'a': images is .*: give a list of \(first, last\)"
    expect_refused(engine, TypeError, words, [70, 70], images=images)


def test_sampling_that_is_none(engine):
    words = "'a': its sampling is a dict: give SamplingParams"
    expect_refused(engine, TypeError, words, [1], {"max_tokens": 3})


@pytest.mark.parametrize(("sampling", "what"), [({}, "a dict"), (0, "0"), ("", "''")])
def test_sampling_that_is_empty_is_not_the_default(engine, sampling, what):
    words = f"its sampling is {what}: give SamplingParams"
    expect_refused(engine, TypeError, f"'a': {words}", [1], sampling)
    with pytest.raises(TypeError, match=words):
        engine.generate([[1]], sampling)


@pytest.mark.parametrize("request_id", [5, True, 1.5, b"a", ("a",)])
def test_a_name_that_is_no_text(engine, request_id):
    with pytest.raises(TypeError, match="give a str, or None for a number"):
        engine.add_request([1], request_id=request_id)
    assert [request.request_id for request in engine.requests] == ["served"]


def test_arrays_are_lists_too(attention_only):
    engine = attention_only.engine()
    sampling = SamplingParams(max_tokens=2, logprobs=np.array([3]), bad_words=np.array([[5, 6]]))
    engine.add_request(np.array([1, 2]), sampling)
    (output,) = engine.run()
    assert [len(logprobs) for logprobs in output.logprobs] in ([2, 2], [1, 2], [2, 1])


def test_what_the_caller_changes_later_changes_nothing(attention_only):
    engine = attention_only.engine()
    prompt, wanted, word = [1, 2, 3], [3, 4], [5]
    sampling = SamplingParams(max_tokens=2, logprobs=wanted, bad_words=[word])
    engine.add_request(prompt, sampling, request_id="changed")
    engine.add_request([1, 2, 3], request_id="innocent")
    prompt.append(V + 999), wanted.append("x"), word.clear()
    assert {output.request_id for output in engine.run()} == {"changed", "innocent"}


@pytest.mark.parametrize(
    ("images", "kind", "words"),
    [
        ([(1, 3), (3, 4)], ValueError, r"'a': the image at \(3, 4\) overlaps another"),
        ([(1, 4), (2, 2)], ValueError, r"'a': the image at \(2, 2\) overlaps another"),
        ([(5, 8)], ValueError, r"'a': the image at \(5, 8\) ends behind the prompt, which has 8"),
        ([(4, 3)], ValueError, r"'a': span \(4, 3\) starts after its end"),
        ([(-1, 3)], ValueError, r"'a': span \(-1, 3\) must not start below position 0"),
        ([(1, 2, 3)], TypeError, r"'a': span \(1, 2, 3\) must be a pair"),
        ([(1, 2.5)], TypeError, r"'a': span \(1, 2.5\) must hold two integers"),
        ([(0, 1)], ValueError, r"'a' has id 1 at position 0: image has ids in \[64, 96\)"),
        ([(2, 4)], ValueError, r"'a' has id 70 at position 1: text has ids in \[0, 64\)"),
        ([(1, 5)], ValueError, r"'a' has id 2 at position 5: image has ids in \[64, 96\)"),
    ],
)
def test_an_image_that_is_none(engine, images, kind, words):
    expect_refused(engine, kind, words, [1, 70, 71, 72, 73, 2, 3, 4], images=images)


def test_an_image_that_no_step_can_hold(accelerator):
    engine = symbolic_engine(small(limits={"max_num_batched_tokens": 8}))
    words = r"'a': the image at \(0, 8\) has 9 tokens, which one step has to compute, .* most 8"
    expect_refused(engine, ValueError, words, [70] * 9, images=[(0, 8)])


def test_more_images_than_there_may_be(accelerator):
    engine = symbolic_engine(small(max_images=1))
    words = "'a' has 2 images: max_images is 1"
    expect_refused(engine, ValueError, words, [70, 70], images=[(0, 0), (1, 1)])


def test_a_request_that_the_cache_could_never_hold(accelerator):
    engine = symbolic_engine(small(limits={"num_gpu_blocks": 3}))
    words = "'a' has 30 tokens and asks for 3: a request has at most 32"
    expect_refused(engine, ValueError, words, [1] * 30, SamplingParams(max_tokens=3))


def test_an_id_that_is_taken_until_its_request_ends(engine):
    with pytest.raises(ValueError, match="request 'served' is being served: choose another id"):
        engine.add_request([4], request_id="served")
    assert engine.request("served").prompt == [1, 2, 3]
    engine.run()
    assert engine.add_request([4], request_id="served") == "served"


def test_an_id_that_somebody_chose_is_not_given_out(engine):
    engine.add_request([1], request_id="0")
    assert engine.add_request([1]) == "1"


def test_nobody_can_cancel_what_is_not_served(engine):
    for request_id in ("a", "served"):
        if request_id == "served":
            engine.cancel(request_id)
        with pytest.raises(ValueError, match=f"request '{request_id}' is not being served"):
            engine.cancel(request_id)
    assert [output.finish_reason for output in engine.run()] == ["cancelled"]


BAD_CONFIGS = {
    EngineConfig.tiny(): [
        ({"num_cpu_blocks": -1}, "num_cpu_blocks -1: it is at least 0"),
        ({"max_images": 0}, "max_images 0: it must be at least 1"),
        ({"num_states": 0}, "num_states 0: it must be at least 1"),
        ({"num_cpu_states": -2}, "num_cpu_states -2: it must be at least 1"),
        ({"loads_ahead": 0}, "loads_ahead 0: it must be at least 1"),
        (
            {"capture_sizes": (2, 9)},
            "9 tokens: capture sizes from 1 to max_num_seqs, which is 8",
        ),
        ({"num_cpu_blocks": 2.5}, "num_cpu_blocks 2.5: it is at least 0"),
        ({"loads_ahead": True}, "loads_ahead True: it must be an integer"),
        ({"capture_sizes": (2.5,)}, "a graph for 2.5 tokens: capture sizes from 1"),
    ],
    EngineConfig.tiny().limits: [
        ({"num_gpu_blocks": 1}, "num_gpu_blocks 1: block 0 belongs to no request"),
        ({"max_num_seqs": 0}, "max_num_seqs 0: it must be at least 1"),
        ({"max_num_batched_tokens": -5}, "max_num_batched_tokens -5: it must be at least 1"),
        ({"max_model_len": 0}, "max_model_len 0: it must be at least 1"),
        ({"max_num_seqs": 2.5}, "max_num_seqs 2.5: it must be an integer"),
        (
            {"max_num_batched_tokens": float("nan")},
            "max_num_batched_tokens nan: it must be an integer",
        ),
        ({"num_gpu_blocks": True}, "num_gpu_blocks True: it must be an integer"),
        ({"block_size": "16"}, "block_size '16': it must be an integer"),
    ],
    ModelConfig.hybrid(): [
        ({"pattern": ()}, r"layers \[\]: each is one of flex, spans, gdn"),
        ({"pattern": ("flex", "mamba")}, r"layers \['flex', 'mamba'\]: each is one of"),
        ({"image_vocab_size": -1}, "image_vocab_size -1: it is at least 0"),
    ],
}


@pytest.mark.parametrize(
    ("config", "change", "words"),
    [(config, *row) for config, rows in BAD_CONFIGS.items() for row in rows],
    ids=without_addresses,
)
def test_a_configuration_that_can_t_be(config, change, words):
    with pytest.raises(ValueError, match=words):
        replace(config, **change)


def test_of_several_prompts_all_are_served_or_none(engine):
    with pytest.raises(ValueError, match="has an empty prompt"):
        engine.generate([[1, 2], []])
    assert [request.request_id for request in engine.requests] == ["served"]
    check_blocks(engine)


def test_an_optimisation_that_nobody_knows():
    with pytest.raises(ValueError, match="'foo' is unknown: choose from pinned_h2d, sync_free"):
        Optimizations.only(["sync_free", "foo"])
    with pytest.raises(TypeError, match="foo"):
        Optimizations(foo=True)


def test_a_flag_that_is_neither_on_nor_off():
    with pytest.raises(TypeError, match="sync_free is 'no': give True or False"):
        Optimizations(sync_free="no")


@pytest.mark.parametrize("optimizations", ["sync_free", [], ["sync_free"], False])
def test_optimisations_that_are_none(accelerator, optimizations):
    with pytest.raises(TypeError, match=r"optimizations is .*: give Optimizations"):
        Engine(small(), optimizations)


def test_one_name_in_the_place_of_a_list_of_names():
    with pytest.raises(TypeError, match=r"names is 'sync_free': give a list, as \['sync_free'\]"):
        Optimizations.only("sync_free")


def test_all_combinations_are_different_and_say_what_is_on():
    combinations = Optimizations.combinations()
    assert len({*combinations}) == len({str(each) for each in combinations}) == 32
    assert (str(combinations[0]), str(combinations[-1])) == ("none", "all")
    assert Optimizations.only(["sync_free", "pinned_h2d"]).names == ("pinned_h2d", "sync_free")


def test_the_weights_of_another_model(attention_only):
    with pytest.raises(ValueError, match="weights are of another model: leave them out, or take"):
        Engine(small("flex"), model=attention_only.model)
