"""A step of a warm engine compiles nothing, and allocates neither device nor pinned memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from debubble.sim.memory import caching
from solutions.engine import SamplingParams
from solutions.engine.pictures.dashboard import TABLES, TOKENS
from solutions.engine.requests.workload import Asked, make_prompt
from tests.scheduling import schedule_only
from tests.warm_steps import SIZES, expecting_nothing_new

from .setting import Setting, add, small

pytestmark = pytest.mark.sim
WARM_UP = 25
STEPS = 20


@pytest.fixture(scope="module")
def served(accelerator):
    """Returns a function that serves random requests for some steps."""
    setting = Setting.of(small("spans", "gdn", num_cpu_blocks=0), accelerator)
    engine = setting.engine()
    random = np.random.default_rng(0)

    def asked(length: int) -> Asked:
        images = [(1, 9)] if length > 12 and random.random() < 0.3 else []
        prompt = make_prompt(setting.config.model, length, images, [int(random.integers(1 << 30))])
        temperature = float(random.random() < 0.5)
        return Asked(prompt, SamplingParams(max_tokens=3, temperature=temperature))

    def serve(steps: int, lengths: Sequence[int] = ()) -> None:
        for length in lengths:
            add(engine, asked(length))
        for _ in range(steps):
            if random.random() < 0.5 or not engine.has_work:
                add(engine, asked(int(random.choice(SIZES))))
            engine.step()
        engine.run()

    return serve


def test_a_warm_engine_compiles_and_allocates_nothing(accelerator, served, pytestconfig):
    caching.DEVICE.begin(int)
    with schedule_only(accelerator, TOKENS | TABLES):
        for length in SIZES:
            served(1, [length] * 4)
        served(WARM_UP)
        with expecting_nothing_new():
            served(10_000 if pytestconfig.getoption("deep") else STEPS)
