"""Interrupted calls: no request is lost, answers are right, and the next call continues.

A small day has loads and stores, a preemption, images, a stop token and a cancelled request. The
tests run it once for each of its lines, and interrupt it there.
"""

import contextlib
import functools
import traceback
from unittest import mock

import pytest

from solutions.engine import Optimizations, SamplingParams
from solutions.engine.requests.workload import make_prompt
from tests.interrupted import Lines

from .setting import add, serve, small
from .symbolic_device import check_blocks, next_token, right_answer, symbolic_engine

FEW = {"max_num_seqs": 3, "max_num_batched_tokens": 40, "max_model_len": 48, "num_gpu_blocks": 5}
PATTERNS = {"states": ("gdn", "flex", "spans"), "attention": ("spans",), "drafts": ("spans",)}
PARTS = 121
ERRORS = (KeyboardInterrupt, RuntimeError)
MOST_CALLS = 200


class Day:
    def __init__(self, pattern: str, sync_free: bool) -> None:
        self.has_drafts = pattern == "drafts"
        config = small(
            *PATTERNS[pattern],
            limits=FEW,
            num_cpu_blocks=6,
            num_states=2,
            num_cpu_states=2,
            num_drafts=2 * self.has_drafts,
        )
        self.engine = symbolic_engine(config, Optimizations(sync_free=sync_free))
        self.vocab_size = config.model.vocab_size
        self.right: dict[str, list[int]] = {}
        self.said: dict[str, list[int]] = {}
        self.interruptions = 0

    def live(self, lines: Lines) -> None:
        self.lines = lines
        # A request holds blocks for its drafts too, so only a request that grows long is
        # preempted.
        length, max_tokens = (18, 20) if self.has_drafts else (34, 5)
        self.add("image", 14, images=[(2, 9)], max_tokens=max_tokens)
        self.add("long", length, max_tokens=max_tokens)
        for _ in range(3):
            self.step()
        self.transfers_end(2)
        self.add("cancelled", 34, max_tokens=9)
        self.step()
        self.call(self.cancel)
        self.run()
        self.call(self.engine.reset_prefix_cache)
        self.add("loaded", 34, max_tokens=2)
        self.add("other", 40, seed=1, max_tokens=4)
        self.step()
        self.transfers_end(1)
        self.add("stops", 18, max_tokens=12, stop_token=self.stop_token(18))
        self.run()

    def add(self, name: str, length: int, images=(), seed: int = 0, **sampling: int) -> None:
        prompt = make_prompt(self.engine.config.model, length, images, seed)

        def add():
            if name not in [request.request_id for request in self.engine.requests]:
                wishes = SamplingParams(**sampling)
                self.engine.add_request(prompt.tokens, wishes, images=images, request_id=name)

        self.call(add)
        self.right[name] = right_answer(self.engine.request(name), self.vocab_size)

    def stop_token(self, length: int) -> int:
        """Returns the third token of the answer to a text prompt of `length` tokens, which becomes
        a stop token."""
        tokens = make_prompt(self.engine.config.model, length).tokens
        for _ in range(3):
            tokens.append(next_token(tokens, [], self.vocab_size))
        return tokens[-1]

    def cancel(self) -> None:
        if "cancelled" in [request.request_id for request in self.engine.requests]:
            self.engine.cancel("cancelled")

    def transfers_end(self, count: int) -> None:
        for handler in (self.engine.offloader.load, self.engine.offloader.store):
            handler.end(count)

    def step(self) -> None:
        self.hear(self.call(self.engine.step))

    def run(self) -> None:
        for _ in range(MOST_CALLS):
            if not self.engine.has_work:
                break
            self.step()
        assert not self.engine.has_work, "it never ends"
        self.hear(self.call(self.engine.run))

    def call(self, method):
        """Calls the method until it isn't interrupted, and returns its result. Counts the
        interruptions."""
        while True:
            try:
                with self.lines.traced():
                    return method()
            except (KeyboardInterrupt, RuntimeError) as error:
                assert error is self.lines.error
                self.interruptions += 1

    def hear(self, outputs) -> None:
        for output in outputs:
            assert output.request_id not in self.said, "it was reported already"
            self.said[output.request_id] = output.token_ids

    def check(self) -> None:
        assert self.said.keys() == self.right.keys(), "a request was lost"
        cancelled = self.said.pop("cancelled")
        assert cancelled == self.right.pop("cancelled")[: len(cancelled)]
        assert self.said == self.right
        check_blocks(self.engine)
        assert self.engine.scheduler.blocks.num_free == FEW["num_gpu_blocks"] - 1
        assert not self.engine.offloader.is_busy


def lived(pattern: str, sync_free: bool, lines: Lines) -> Day:
    day = Day(pattern, sync_free)
    day.live(lines)
    day.check()
    return day


@pytest.fixture(scope="module")
def counted(accelerator):
    """Returns a function that takes (pattern, sync_free) and returns the Lines of a day without
    interruptions."""

    @functools.cache
    def of(pattern, sync_free):
        lived(pattern, sync_free, lines := Lines())
        return lines

    return of


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_day_is_a_hard_one(counted, pattern):
    """A day has preemptions, a stop token and more than 2,000 lines. The tests below mean little
    otherwise."""
    day = lived(pattern, True, Lines())
    assert day.engine.scheduler.num_preemptions > 0
    assert len(day.right["stops"]) < 12
    assert counted(pattern, True).count > 2_000


@pytest.mark.sim
def test_an_error_is_at_the_same_line_whether_the_blocks_before_it_are_counted_or_not(counted):
    lines = counted("states", True)
    for line in range(1, lines.count, lines.count // 9):
        places = []
        for known in (None, lines):
            lived("states", True, Lines(error := KeyboardInterrupt(), [line], counted=known))
            *_, frame = traceback.extract_tb(error.__traceback__)
            places.append((frame.filename, frame.lineno))
        assert places[0] == places[1]


@pytest.mark.sim
@pytest.mark.deep(PARTS)
@pytest.mark.parametrize("sync_free", [True, False], ids=["ahead", "in turn"])
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("part", range(PARTS))
def test_an_error_at_any_line_loses_nothing(counted, part, pattern, sync_free):
    lines = counted(pattern, sync_free)
    for line in range(1 + part, lines.count + 1, PARTS):
        error = ERRORS[line // PARTS % 2](f"at line {line}")
        day = lived(pattern, sync_free, Lines(error, [line], counted=lines))
        assert day.interruptions == 1


def test_images_of_a_step_that_was_interrupted_are_nobody_elses(attention_only):
    """A prompt of text isn't affected by the images of a step that was interrupted right after
    their ranges had reached the device, unknown to the host."""
    engine = attention_only.engine()
    image = attention_only.asked(14, 1, [(2, 9)], max_tokens=2)
    ranges = engine.runner.backends["spans"].ranges.runner.prefix_ranges
    upload = ranges.staging.upload

    def interrupted(*tensors):
        upload(*tensors)
        raise KeyboardInterrupt

    request_id = add(engine, image)
    interrupting = mock.patch.object(ranges.staging, "upload", interrupted)
    with interrupting, pytest.raises(KeyboardInterrupt):
        engine.step()
    engine.cancel(request_id)
    assert ranges.tensor.cpu().any()
    serve(engine, [attention_only.asked(14, 2, max_tokens=1)])
    assert not ranges.tensor.cpu().any(), "a prompt of text is told of an image"


WHERE = 40
"""The number of places, evenly spread over its lines, at which a day on the device is
interrupted."""


@pytest.mark.deep(WHERE)
@pytest.mark.parametrize("place", range(WHERE))
def test_nor_is_anything_lost_on_a_device_with_graphs_loads_and_stores(hybrid, on_device, place):
    count, answers = on_device
    line = count * (2 * place + 1) // (2 * WHERE)
    engine = hybrid.engine()
    assert lived_on_device(engine, hybrid, Lines(KeyboardInterrupt(), [line])) == answers


@pytest.fixture(scope="module")
def on_device(hybrid):
    """Returns (count, answers) of a run on the device without interruptions: `count` is how many
    lines of code ran, and so at how many places the tests can interrupt one."""
    answers = lived_on_device(hybrid.engine(), hybrid, lines := Lines())
    assert len({*map(tuple, answers)}) == 2, "the long one was answered twice, and alike"
    return lines.count, answers


def lived_on_device(engine, setting, lines):
    """Serves a long prompt, clears the engine's prefix cache, and serves the same prompt again with
    a short one, with interruptions as `lines` says. Returns the three answers, right or not."""
    long, short = setting.asked(34, 1, max_tokens=2), setting.asked(5, 2, max_tokens=4)
    said = {}

    def until_done(method):
        while True:
            with contextlib.suppress(KeyboardInterrupt), lines.traced():
                return method()

    def run():
        for _ in range(MOST_CALLS):
            if not engine.has_work:
                break
            said.update({each.request_id: each.token_ids for each in until_done(engine.step)})
        said.update({each.request_id: each.token_ids for each in until_done(engine.run)})

    first = add(engine, long)
    run()
    engine.reset_prefix_cache()
    ids = [first, add(engine, long), add(engine, short)]
    run()
    assert engine.scheduler.blocks.num_free == engine.config.limits.num_gpu_blocks - 1
    return [said[request_id] for request_id in ids]


@pytest.mark.sim
@pytest.mark.deep(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_nor_does_a_second_one_while_the_first_is_made_good(counted, part):
    lines = counted("states", True)
    for line in range(1 + part, lines.count + 1, PARTS):
        error = KeyboardInterrupt(f"at line {line}")
        for later in (line % 97 + 1, line % 31 + 1):
            day = lived("states", True, Lines(error, [line, line + later], counted=lines))
            assert day.interruptions <= 2
