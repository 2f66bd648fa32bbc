"""Sampling parameters: stop tokens, log-probabilities, and forbidden words."""

from dataclasses import replace

import pytest

from solutions.engine import SamplingParams

from .setting import ALL, WITHOUT, add, serve, tokens_of

EACH_WAY = pytest.mark.parametrize(
    "optimizations", [ALL, WITHOUT["sync_free"]], ids=["sync_free", "as it was"]
)


def free_answer(setting, seed, max_tokens=8):
    """Returns the reference's answer to prompt `seed` without further sampling parameters."""
    return setting.answer(setting.asked(12, seed, max_tokens=max_tokens))


@EACH_WAY
def test_an_answer_ends_with_its_stop_token_also_where_that_is_known_a_step_late(
    attention_only, optimizations
):
    stop = free_answer(attention_only, 1)[2]
    all_asked = [
        attention_only.asked(12, 1, max_tokens=8, stop_token=stop),
        attention_only.asked(12, 2, max_tokens=8),
    ]
    stopped, other = serve(attention_only.engine(optimizations), all_asked)
    assert stopped.finish_reason == "stop"
    assert stopped.token_ids[-1] == stop
    assert stop not in stopped.token_ids[:-1]
    assert other.finish_reason == "length"
    assert tokens_of([stopped, other]) == attention_only.answers(all_asked)


@EACH_WAY
def test_a_stop_token_that_is_the_last_one_anyway_is_the_reason(attention_only, optimizations):
    answer = free_answer(attention_only, 3, max_tokens=1)
    asked = attention_only.asked(12, 3, max_tokens=1, stop_token=answer[0])
    (output,) = serve(attention_only.engine(optimizations), [asked])
    assert (output.token_ids, output.finish_reason) == (answer, "stop")


@EACH_WAY
def test_logprobs_are_those_of_the_reference(attention_only, optimizations):
    all_asked = [
        attention_only.asked(12, 1, max_tokens=3, logprobs=[0, 63, 5]),
        attention_only.asked(9, 2, max_tokens=3),
        attention_only.asked(5, 3, max_tokens=2, logprobs=[]),
    ]
    outputs = serve(attention_only.engine(optimizations), all_asked)
    assert outputs[1].logprobs == []
    for asked, output in ((all_asked[0], outputs[0]), (all_asked[2], outputs[2])):
        assert len(output.logprobs) == len(output.token_ids)
        for number, (token, found) in enumerate(
            zip(output.token_ids, output.logprobs, strict=True)
        ):
            before = [*asked.prompt.tokens, *output.token_ids[:number]]
            right = attention_only.reference.logits(before)[-1].log_softmax(-1)
            assert found.keys() == {token, *asked.sampling.logprobs}
            for token_id, logprob in found.items():
                assert logprob == pytest.approx(right[token_id].item(), abs=1e-4)


@EACH_WAY
def test_logprobs_are_of_all_words_also_where_some_are_forbidden(attention_only, optimizations):
    forbidden = free_answer(attention_only, 1, max_tokens=1)[0]
    wishes = {"max_tokens": 2, "bad_words": [[forbidden]], "logprobs": [forbidden, 5]}
    asked = attention_only.asked(12, 1, **wishes)
    (output,) = serve(attention_only.engine(optimizations), [asked])
    for number, found in enumerate(output.logprobs):
        before = [*asked.prompt.tokens, *output.token_ids[:number]]
        right = attention_only.reference.logits(before)[-1].log_softmax(-1)
        for token_id, logprob in found.items():
            assert logprob == pytest.approx(right[token_id].item(), abs=1e-4)


@EACH_WAY
def test_bad_words_of_one_id_and_of_several_are_never_said(attention_only, optimizations):
    free = free_answer(attention_only, 1)
    words = {
        "one": [free[0:1]],
        "several": [free[1:3], free[4:7]],
        "both": [free[3:4], free[0:2]],
        "longer than the answer": [list(range(12))],
    }
    all_asked = [
        attention_only.asked(12, 1, max_tokens=8, bad_words=word) for word in words.values()
    ]
    outputs = tokens_of(serve(attention_only.engine(optimizations), all_asked))
    assert outputs == attention_only.answers(all_asked)
    for output, word in zip(outputs, words.values(), strict=True):
        said = [output[i : i + len(bad)] for bad in word for i in range(len(output))]
        assert not any(bad in said for bad in word)
    assert outputs[0] != free != outputs[1]
    assert outputs[3] == free


def test_only_words_of_several_ids_need_what_was_said_before():
    assert SamplingParams(bad_words=[[1], [2, 3]]).looks_back
    assert not SamplingParams(bad_words=[[1], [2]]).looks_back


def test_a_request_without_wishes_runs_ahead_beside_one_that_looks_back(attention_only):
    """A request isn't slowed down by another one with a bad word of two ids. That one takes every
    other step only, since the host must know the first id before it can forbid the second."""
    engine = attention_only.engine(ALL)
    free = free_answer(attention_only, 1)
    looks_back = attention_only.asked(12, 1, max_tokens=6, bad_words=[free[1:3]])
    other = attention_only.asked(12, 2, max_tokens=6)
    requests = [engine.request(add(engine, asked)) for asked in (looks_back, other)]
    in_flight = [[], []]
    while engine.requests:
        engine.step()
        for request, seen in zip(requests, in_flight, strict=True):
            seen.append(request.num_sampled - len(request.generated))
    assert [request.generated for request in requests] == attention_only.answers(
        [looks_back, other]
    )
    assert len(in_flight[1]) > 6, "the one that looks back took every other step"


def test_wishes_survive_a_preemption(attention_only):
    """Bad words and log-probabilities of a request stay right when it is preempted. (Three requests
    compete for three blocks.)"""
    config = attention_only.config
    crowded = replace(config, limits=replace(config.limits, num_gpu_blocks=4))
    engine = attention_only.engine(ALL, crowded)
    free = free_answer(attention_only, 2)
    all_asked = [
        attention_only.asked(14, 1, max_tokens=8),
        attention_only.asked(14, 2, max_tokens=8, bad_words=[free[:2]], logprobs=[1]),
        attention_only.asked(14, 3, max_tokens=8, logprobs=[2]),
    ]
    outputs = serve(engine, all_asked)
    assert engine.scheduler.num_preemptions > 0
    assert tokens_of(outputs) == attention_only.answers(all_asked)
    assert [len(output.logprobs) for output in outputs] == [0, 8, 8]


def test_generate_is_a_call_for_text_alone(attention_only):
    prompts = [attention_only.prompt(length, length).tokens for length in (3, 18, 9)]
    sampling = SamplingParams(max_tokens=3)
    engine = attention_only.engine()
    other = add(engine, attention_only.asked(5, 5, max_tokens=2))
    answers = engine.generate(prompts, sampling)
    assert answers == [attention_only.reference.generate(p, sampling) for p in prompts]
    assert [output.request_id for output in engine.step()] == [other]


def test_generate_leaves_the_id_of_a_request_alone_that_was_not_reported_yet(attention_only):
    engine = attention_only.engine()
    engine.add_request([1], request_id="0")
    engine.cancel("0")
    engine.generate([[1, 2]], SamplingParams(max_tokens=1))
    assert [(o.request_id, o.finish_reason) for o in engine.step()] == [("0", "cancelled")]
