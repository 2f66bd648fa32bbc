"""Random schedules: whatever comes, and whenever, each step reads what it should and no block is
lost."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from solutions.engine import EngineConfig, Optimizations, SamplingParams
from solutions.engine.requests.workload import make_prompt

from .setting import prefixes_used
from .symbolic_device import Refused, check_blocks, right_answer, symbolic_engine

PATTERNS = (("gdn", "flex", "spans"), ("spans",))
"""Layer patterns with states and without states."""
IMAGES = ([], [], [], [(12, 15)], [(10, 20)], [(1, 12), (13, 24)])
ACTIONS = {
    "add": 8,
    "step": 12,
    "cancel": 1,
    "transfers_end": 6,
    "link": 2,
    "memory": 2,
    "forget": 1,
}
"""How often each event happens in a day, relative to the others."""
SEEDS = 40


class Day:
    """A series of random events for one engine with little memory: requests are added and
    cancelled, transfers end or fail, memory is scarce."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        choose = self.random.choice
        tiny = EngineConfig.tiny()
        limits = replace(
            tiny.limits,
            max_num_seqs=3,
            max_num_batched_tokens=choose([12, 20, 48]),
            max_model_len=48,
            num_gpu_blocks=choose([4, 5, 7]),
        )
        config = replace(
            tiny,
            model=replace(tiny.model, pattern=choose(PATTERNS)),
            limits=limits,
            num_cpu_blocks=choose([0, 3, 16, 16]),
            num_states=2,
            num_cpu_states=2,
            loads_ahead=choose([1, 2]),
        )
        if config.model.pattern == PATTERNS[1]:
            num_drafts = choose([0, 2])
            limits = replace(limits, max_model_len=48 + num_drafts)
            config = replace(config, limits=limits, num_drafts=num_drafts)
        self.engine = symbolic_engine(config, Optimizations(sync_free=choose([False, True])))
        self.right: dict[str, list[int]] = {}
        self.seen: Counter[str] = Counter()
        self.prefixes = prefixes_used(self.engine)

    def add(self) -> None:
        """Adds a request to the engine. Prompts are beginnings of two texts, with or without
        images, so that many have common prefixes."""
        choose, model = self.random.choice, self.engine.config.model
        length, images = choose([3, 16, 17, 33, 34, 40]), choose(IMAGES)
        tokens = make_prompt(model, 40, seed=choose([0, 1])).tokens[:length]
        patches = make_prompt(model, 40, [(0, 39)], seed=choose([0, 1])).tokens
        images = [image for image in images if image[1] < length]
        for first, last in images:
            tokens[first : last + 1] = patches[: last + 1 - first]
        stop_token = choose([None, None, 3])
        sampling = SamplingParams(max_tokens=choose([1, 3, 8]), stop_token=stop_token)
        request_id = self.engine.add_request(tokens, sampling, images=images)
        self.right[request_id] = right_answer(self.engine.request(request_id), model.vocab_size)

    def step(self) -> None:
        try:
            outputs = self.engine.step()
        except Refused:
            self.seen["refused"] += 1
            return
        for output in outputs:
            right = self.right.pop(output.request_id)
            self.seen["load failed"] += len(output.notes)
            if output.finish_reason == "cancelled":
                right = right[: len(output.token_ids)]
            assert output.token_ids == right

    def cancel(self) -> None:
        if self.engine.requests:
            loading = self.engine.scheduler.loading
            request = self.random.choice(loading or self.engine.requests)
            if request.finish_reason is None:
                self.seen[f"cancelled while {request.status.value}"] += 1
                self.engine.cancel(request.request_id)

    def transfers_end(self) -> None:
        if self.engine.offloader:
            for handler in (self.engine.offloader.load, self.engine.offloader.store):
                handler.end(self.random.randrange(3))

    def link(self) -> None:
        """Makes loads and stores that begin from now on fail, or succeed again, at random."""
        if self.engine.offloader:
            self.engine.offloader.load.failing = self.random.random() < 0.3
            self.engine.offloader.store.failing = self.random.random() < 0.2

    def memory(self, shortage: float = 0.2) -> None:
        """Makes the symbolic device refuse, or allow again, loads, stores and copies of states, at
        random with the chance `shortage` each."""
        offloader, states = self.engine.offloader, self.engine.model.states
        copying = [offloader and offloader.load, offloader and offloader.store, states]
        for who in filter(None, copying):
            who.refuses = self.random.random() < shortage

    def forget(self) -> None:
        """Clears the engine's prefix cache, so that prefixes have to come from host memory."""
        self.memory(shortage=0.0)
        self.end()
        self.engine.reset_prefix_cache()

    def end(self) -> None:
        for _ in range(1000):
            if not self.engine.has_work:
                break
            self.step()
            check_blocks(self.engine)
        assert not self.right, "a request was lost, or none can continue"

    def pass_by(self, num_actions: int) -> None:
        actions = self.random.choices(list(ACTIONS), ACTIONS.values(), k=num_actions)
        for action in actions:
            getattr(self, action)()
            check_blocks(self.engine)
        self.forget()
        num_blocks = self.engine.config.limits.num_gpu_blocks
        assert self.engine.scheduler.blocks.num_free == num_blocks - 1
        self.seen["preempted"] = self.engine.scheduler.num_preemptions
        self.seen["found on the device"] = sum(bool(each.gpu_blocks) for each in self.prefixes)
        self.seen["loaded"] = sum(each.needs_load for each in self.prefixes)


@pytest.fixture(scope="module")
def what_happened():
    """Returns a Counter, shared by all tests of the module, of the events of all days."""
    return Counter()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_step_reads_what_it_should_and_no_block_is_lost(accelerator, what_happened, seed):
    day = Day(seed)
    day.pass_by(100)
    what_happened.update(day.seen, days=1)


def test_these_days_were_hard(what_happened):
    """Every kind of event happened at least five times in the days of the test above, which means
    little otherwise."""
    days = what_happened.pop("days", 0)
    if days < SEEDS:
        pytest.skip(f"{days} of {SEEDS} days were in this process")
    assert set(what_happened) == {
        "cancelled while waiting",
        "cancelled while loading",
        "cancelled while running",
        "preempted",
        "found on the device",
        "loaded",
        "load failed",
        "refused",
    }
    assert min(what_happened.values()) >= 5, what_happened
