"""Records decode steps: Llama's, which chapter 06 shows on machines that can't run it, and those of
a checkpoint of the reader's."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import debubble
from debubble.accelerator import Accelerator
from debubble.timeline import Timeline
from solutions.measure.benchmark import no_garbage
from solutions.models.checkpoints.random_folder import SHAPES, write_folder

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
            yield name_of(frozenset(chosen), batch), _record_steps(accelerator, engine, batch)


def record_checkpoint(
    accelerator: Accelerator, folder: str | Path | None = None, batch: int = 4
) -> dict[str, Timeline]:
    """Returns recordings of decode steps of a checkpoint with "none" and "all" of the five
    optimisations, by that name. The checkpoint is in `folder`, or a tiny one with random weights
    that is made for it. Raises ValueError, which names the fault of the folder."""
    if folder is None:
        with tempfile.TemporaryDirectory() as scratch:
            tiny = write_folder(SHAPES["tiny"], Path(scratch) / "tiny")
            return record_checkpoint(accelerator, tiny, batch)
    recorded = {}
    for optimizations in (Optimizations.none(), Optimizations()):
        engine = Engine.from_pretrained(
            folder, optimizations, max_num_seqs=batch, max_model_len=128, capture_sizes=(batch,)
        )
        recorded[str(optimizations)] = _record_steps(accelerator, engine, batch)
    return recorded


def _record_steps(accelerator: Accelerator, engine: Engine, batch: int) -> Timeline:
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
