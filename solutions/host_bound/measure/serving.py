"""Serves requests one after another, and records the step of each."""

from __future__ import annotations

from collections.abc import Iterable

import torch

import debubble
from debubble.accelerator import current

from .. import before
from ..batch import mixed_batch


def serve(server: before.StepServer, lengths: Iterable[int]) -> list[debubble.Timeline]:
    """Returns a recording of one step for each request, which has as many tokens as `lengths` says.
    The recordings have compilations too."""
    accelerator = current()
    width = server.scales[0].shape[0]
    recorded = []
    for tokens in lengths:
        batch = mixed_batch([tokens], len(server.caches))
        hidden = torch.ones(tokens, width, device=accelerator.device)
        with debubble.record(accelerator, also=["compile"]) as timeline:
            server.step(batch, hidden)
        recorded.append(timeline)
    return recorded
