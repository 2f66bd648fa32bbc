"""Captures a step in graphs, and replays it for other batches (vLLM #36298)."""

from __future__ import annotations

from typing import NamedTuple

import torch

from debubble.accelerator import Graph, current

from .model.pieces import StepInPieces
from .steps.batch import CommonAttentionMetadata
from .steps.scheduled import ScheduledBatch
from .steps.step_runner import StepRunner


class CapturedStep(NamedTuple):
    """A captured step of one size, which is its number of tokens."""

    graphs: list[Graph]
    pieces: StepInPieces
    logits: torch.Tensor
    """[size, vocab_size]: the logits, which each replay overwrites."""


class PiecewiseRunner(StepRunner[CapturedStep]):
    """A runner of num_layers + 1 graphs a step, with attention between and metadata before them."""

    def _capture(self, common: CommonAttentionMetadata) -> CapturedStep:
        pieces = StepInPieces(self.model, self.inputs.model_inputs(common.num_actual_tokens))
        run, graphs = pieces.run(), []
        for _ in range(len(self.model.layers) + 1):
            graphs.append(current().graph())
            with graphs[-1].capture():
                next(run)
        return CapturedStep(graphs, pieces, pieces.logits)

    def _replay(self, captured: CapturedStep, batch: ScheduledBatch) -> torch.Tensor:
        metadata = self._metadata(self._common_of(batch))
        captured.graphs[0].replay()
        for graph, layer in zip(captured.graphs[1:], self.model.layers, strict=True):
            captured.pieces.attend(layer, batch.num_tokens, metadata[layer])
            graph.replay()
        return captured.logits
