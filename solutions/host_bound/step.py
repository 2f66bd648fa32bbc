"""The same server, warmed up: one upload and one graph launch a step, and nothing is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from debubble.accelerator import current

from . import before
from .batch import StepRequests
from .buckets import bucket_for
from .kernels import store_tokens
from .metadata import SharedBuilder


class StepServer(before.StepServer):
    """A server whose steps run in graphs, one for each bucket of tokens. Its constructor captures
    them, and whatever they compile is compiled there."""

    def __init__(
        self, layers: int, width: int, groups: int, slots: int, buckets: Sequence[int]
    ) -> None:
        super().__init__(layers, width, groups, slots)
        self.buckets = list(buckets)
        most = self.buckets[-1]
        self._builder = SharedBuilder(most, most, groups)
        self._hidden = torch.zeros(most, width, device=current().device)
        self._graphs = {size: self._captured(size) for size in reversed(self.buckets)}

    def step(self, batch: StepRequests, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the output [T, W], which the next step overwrites."""
        self.renew(batch)
        self._hidden[: batch.num_tokens].copy_(hidden)
        graph, output = self._graphs[bucket_for(batch.num_tokens, self.buckets)]
        graph.replay()
        return output[: batch.num_tokens]

    def renew(self, batch: StepRequests) -> None:
        """Writes a step's metadata to the addresses that the graphs read."""
        self._builder.renew(batch)

    def _captured(self, size: int) -> tuple:
        """Returns a graph of a step with `size` tokens, and the memory of its output."""
        self._eager(size)
        graph = current().graph()
        with graph.capture():
            output = self._eager(size)
        return graph, output

    def _eager(self, size: int) -> torch.Tensor:
        hidden = self.compute(self._hidden[:size])
        for cache, slots in zip(self.caches, self._builder.slots, strict=True):
            store_tokens(hidden, slots[:size], cache)
        return hidden
