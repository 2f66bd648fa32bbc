"""Threads that share engines, interrupted calls, and answers that are no longer read.

Each caller gets the right answer or one error, and no request is left over.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from solutions.engine import Optimizations, SamplingParams
from solutions.engine.requests.workload import make_prompt
from solutions.models.text.stream import stream_text
from tests.interrupted import Lines

from .setting import small
from .symbolic_device import check_blocks, next_token, symbolic_engine

TOKENS = 4
SHORT = SamplingParams(max_tokens=TOKENS)


class Words:
    """A stand-in for a tokenizer: text is ids separated by spaces."""

    stop_tokens = ()

    def encode(self, prompt, how):
        return list(map(int, prompt.split()))

    def decode(self, ids):
        return "".join(f"{each} " for each in ids)


def streamed(engine, prompt, sampling=SHORT):
    return stream_text(engine, Words(), " ".join(map(str, prompt)), sampling, ())


def quick_engine():
    """Returns an engine on the symbolic device, which computes the next token by a rule instead of
    a model."""
    return symbolic_engine(small("spans", limits={"num_gpu_blocks": 9}), Optimizations())


def prompt_of(engine, length, seed=0):
    return make_prompt(engine.config.model, length, (), seed).tokens


def right(engine, prompt, count=TOKENS):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tokens, [], engine.config.model.vocab_size))
    return tokens[len(prompt) :]


def check_nothing_is_left(engine):
    assert engine.requests == [] and engine.step() == [] and not engine.has_work
    assert engine.scheduler.blocks.num_free == engine.config.limits.num_gpu_blocks - 1


@pytest.fixture
def threads():
    """Returns an executor of 4 threads, while Python switches between threads every microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as threads:
        yield threads
    sys.setswitchinterval(before)


@pytest.mark.parametrize("num_engines", [1, 2])
def test_threads_get_the_answers_of_their_own_prompts(threads, attention_only, num_engines):
    engines = [attention_only.engine() for _ in range(num_engines)]
    asked = [attention_only.asked(9, seed, max_tokens=TOKENS) for seed in range(4)]

    def answer(number):
        engine, prompt = engines[number % num_engines], asked[number].prompt.tokens
        if number < 2:
            return engine.generate([prompt], SHORT)[0]
        return list(map(int, "".join(streamed(engine, prompt)).split()))

    assert list(threads.map(answer, range(4))) == attention_only.answers(asked)
    for engine in engines:
        check_nothing_is_left(engine)


def test_an_error_in_one_thread_is_not_another_threads(threads):
    engine = quick_engine()
    prompts = [prompt_of(engine, 20, seed) for seed in range(12)]
    run, failing = engine.runner.run, iter([False, True] * 100)

    def sometimes(*batch):
        if next(failing):
            raise RuntimeError("out of memory")
        return run(*batch)

    def answer(prompt):
        try:
            return engine.generate([prompt], SHORT)[0]
        except RuntimeError as error:
            assert str(error) == "out of memory"
            return None

    with mock.patch.object(engine.runner, "run", sometimes):
        answers = list(threads.map(answer, prompts))
    assert None in answers
    for prompt, said in zip(prompts, answers, strict=True):
        assert said in (None, right(engine, prompt))
    check_nothing_is_left(engine)
    assert engine.generate(prompts, SHORT) == [right(engine, prompt) for prompt in prompts]


def interrupted(lines, use):
    """Calls `use` with a new engine that also has another request, and raises an error where
    `lines` says. Checks that the other request is answered, that nothing is left, and that the next
    call is right."""
    engine = quick_engine()
    prompt = prompt_of(engine, 20)
    engine.add_request(prompt_of(engine, 5, 1), SHORT, request_id="other")
    try:
        with lines.traced():
            use(engine, prompt)
    except KeyboardInterrupt as error:
        assert error is lines.error
    others = [output for output in engine.run() if output.request_id == "other"]
    assert [each.token_ids for each in others] == [right(engine, prompt_of(engine, 5, 1))]
    check_nothing_is_left(engine)
    assert engine.generate([prompt], SHORT) == [right(engine, prompt)]
    check_blocks(engine)


def use_generate(engine, prompt):
    engine.generate([prompt, prompt[:3]], SHORT)


def use_stream(engine, prompt):
    assert len(list(streamed(engine, prompt))) == TOKENS


def leave_stream(engine, prompt):
    parts = streamed(engine, prompt)
    next(parts)
    parts.close()


PARTS = 60


@pytest.mark.sim
@pytest.mark.deep(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("use", [use_generate, use_stream, leave_stream])
def test_a_call_that_is_interrupted_at_any_line_leaves_nothing(accelerator, use, part):
    interrupted(lines := Lines(), use)
    assert lines.count > 300
    for line in range(1 + part, lines.count + 1, PARTS):
        interrupted(Lines(KeyboardInterrupt(f"at line {line}"), [line]), use)


@pytest.mark.sim
def test_a_call_that_is_interrupted_where_a_line_first_runs_leaves_a_usable_engine(accelerator):
    """An engine is usable after Ctrl-C at any line of a call, tried once for each line at its first
    run. (Deep tests try each run of each line.)"""
    interrupted(lines := Lines(), use_generate)
    for line in lines.first.values():
        interrupted(Lines(KeyboardInterrupt(f"at line {line}"), [line]), use_generate)


def test_a_call_from_within_a_call_is_refused_and_breaks_neither(accelerator):
    engine = quick_engine()
    prompt, run, said = prompt_of(engine, 20), engine.runner.run, []

    def as_in_a_signal_handler(*batch):
        for call in (engine.step, lambda: engine.generate([prompt]), lambda: engine.cancel("0")):
            with pytest.raises(RuntimeError, match="was called while this thread is in another"):
                call()
        said.append(True)
        return run(*batch)

    with mock.patch.object(engine.runner, "run", as_in_a_signal_handler):
        assert engine.generate([prompt], SHORT) == [right(engine, prompt)]
    assert said
    check_nothing_is_left(engine)


def test_an_iterator_that_is_collected_within_a_step_disturbs_nothing(accelerator):
    engine = quick_engine()
    prompt, run = prompt_of(engine, 20), engine.runner.run
    abandoned = [streamed(engine, prompt_of(engine, 9, 1), SamplingParams(max_tokens=30))]
    next(abandoned[0])

    def collected(*batch):
        abandoned.clear()
        return run(*batch)

    with mock.patch.object(engine.runner, "run", collected):
        assert engine.generate([prompt], SHORT) == [right(engine, prompt)]
    check_nothing_is_left(engine)


def test_a_stream_is_whole_if_other_calls_end_it_and_they_do_not_report_it(accelerator):
    engine = quick_engine()
    prompt = prompt_of(engine, 20)
    parts = streamed(engine, prompt)
    said = next(parts)
    assert engine.run() == []
    assert list(map(int, (said + "".join(parts)).split())) == right(engine, prompt)


def test_a_stream_that_has_ended_cancels_no_request_of_the_same_name(accelerator):
    engine = quick_engine()
    parts = streamed(engine, prompt_of(engine, 20))
    next(parts)
    (streaming,) = engine.requests
    engine.run()
    engine.add_request(prompt_of(engine, 3), SHORT, request_id=streaming.request_id)
    parts.close()
    assert [output.finish_reason for output in engine.run()] == ["length"]
