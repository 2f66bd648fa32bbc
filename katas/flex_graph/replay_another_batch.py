"""Replay another batch (chapter 04, hard, 35 minutes).

A runner has captured its model at a few sizes. It writes a step of any number of tokens to the
arrays that the model reads, and replays the smallest graph that holds the step: one launch. The
class below keeps these arrays. But the runner never computes the step that it was given: `upload`
replaces each array by a new tensor, while the graph goes on reading the captured one, which is full
of padding.

Write each step to the arrays that the graphs read: all arrays by one upload from memory that is
pinned if `current().pin_memory` is true, without a wait. If all pinned buffers are in use, `upload`
may wait for the first of them; with new pinned memory in each step it need not. A step may have
fewer tokens than its graph has rows, and the graph computes all rows. So the values after the
step's own must be padding in every step, and every array has a padding value of its own.

You need to know packed uploads from a ring of pinned memory, and graphs.

Edit this file, then run

    .venv/bin/pytest katas/flex_graph/test_replay_another_batch.py

Stuck?         .venv/bin/debubble hint replay_another_batch
Start afresh?  .venv/bin/debubble reset replay_another_batch
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch


# Yours to edit, from here on.
class PersistentArrays:
    """Arrays of int32 on the device, each as long as any step needs it. Every step is written to
    the same addresses, so a captured graph may keep them (vLLM #36298)."""

    def __init__(
        self, sizes: Mapping[str, int], device: torch.device, steps_in_flight: int = 2
    ) -> None:
        """Allocates the arrays, filled with zeros. `sizes` is the length of each array, by its
        name. Up to `steps_in_flight` steps are queued without a wait; an upload after them may
        wait for the first of them."""
        self.device = device
        self.arrays = {
            name: torch.zeros(size, dtype=torch.int32, device=device)
            for name, size in sizes.items()
        }

    def __getitem__(self, name: str) -> torch.Tensor:
        """Returns the whole array: a view, the same for all steps."""
        return self.arrays[name]

    def upload(self, step: Mapping[str, tuple[np.ndarray, int | None]]) -> None:
        """Writes a step to the arrays, by one pinned upload without a wait.

        `step` has two things for each array: its first numbers, integers on the host that the
        caller may change at once, and at most as many as the array has; and the number that fills
        the rest, in every step. None leaves the rest undefined, for arrays whose rest is not read.
        """
        for name, (values, _) in step.items():
            self.arrays[name] = torch.tensor(values, dtype=torch.int32).to(self.device)
