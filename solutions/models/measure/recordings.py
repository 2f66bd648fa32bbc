"""Records decode steps of a checkpoint of the reader's."""

from __future__ import annotations

import tempfile
from pathlib import Path

from debubble.accelerator import Accelerator
from debubble.timeline import Timeline
from solutions.engine.measure.recordings import record_steps
from solutions.engine.optimizations import Optimizations

from ..checkpoints.random_folder import SHAPES, write_folder
from ..pretrained import from_pretrained


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
        engine = from_pretrained(
            folder, optimizations, max_num_seqs=batch, max_model_len=128, capture_sizes=(batch,)
        )
        recorded[str(optimizations)] = record_steps(accelerator, engine, batch)
    return recorded
