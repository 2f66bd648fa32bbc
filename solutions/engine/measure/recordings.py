"""Records decode steps of Llama, which chapter 06 shows on machines that can't run it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import debubble
from debubble.accelerator import Accelerator
from debubble.timeline import Timeline
from solutions.measure.benchmark import no_garbage

from ..engine import Engine
from ..model.config import EngineConfig
from ..model.model import Model
from ..optimizations import Optimizations
from ..requests.request import SamplingParams
from ..requests.workload import make_prompt

OPTIMIZATIONS = ("sync_free", "flex_full_graph")
"""The optimisations that affect a decode step of Llama, which has no images, no states, and nothing
to load."""
BATCHES = (1, 4, 8)
STEPS = 2
PROMPT_TOKENS = 32
WARM_UP = 8
"""Steps before the recorded ones, prefills included."""
MODELLED_WARM_UP = 2
"""Steps before the recorded ones on sim, where nothing compiles and no GPU clock rises."""


def name_of(on: frozenset[str], batch: int) -> str:
    """Returns the name of a recording of Llama, such as `llama_3_8b_8_sync_free`: with these
    optimisations on, and `batch` requests."""
    what = "_".join(name for name in OPTIMIZATIONS if name in on) or "none"
    return f"llama_3_8b_{batch}_{what}"


def record_all(accelerator: Accelerator, model: Model) -> Iterator[tuple[str, Timeline]]:
    """Yields (name, recording) of Llama's decode steps for each of BATCHES and each choice of
    OPTIMIZATIONS, with the weights of `model`."""
    for batch in BATCHES:
        of_batch = replace(EngineConfig.llama_3_8b(), capture_sizes=(batch,))
        for chosen in ((), ("sync_free",), ("flex_full_graph",), OPTIMIZATIONS):
            engine = Engine(of_batch, Optimizations.only(chosen), model=model)
            yield name_of(frozenset(chosen), batch), record_steps(accelerator, engine, batch)


def record_steps(accelerator: Accelerator, engine: Engine, batch: int) -> Timeline:
    """Returns a recording of STEPS decode steps of `batch` requests."""
    room = SamplingParams(max_tokens=64)
    for number in range(batch):
        engine.add_request(
            make_prompt(engine.config.model, PROMPT_TOKENS, seed=number).tokens, room
        )
    for _ in range(MODELLED_WARM_UP if accelerator.modelled else WARM_UP):
        engine.step()
    accelerator.synchronize()
    with no_garbage(), debubble.record(accelerator) as timeline:
        for _ in range(STEPS):
            engine.step()
    return timeline


def __getattr__(name: str) -> object:
    """Raises ImportError for a name that a reader's older copy of chapter 06 imports from here."""
    if name == "record_checkpoint":
        raise ImportError(
            "record_checkpoint is in solutions.models.measure.recordings: import it from there"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
