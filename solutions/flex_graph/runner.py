"""Captures a step in graphs, and replays it for other batches (vLLM #36298)."""

from __future__ import annotations

from typing import NamedTuple

import torch

from debubble.accelerator import Graph, current

from .steps.batch import CommonAttentionMetadata
from .steps.scheduled import ScheduledBatch
from .steps.step_runner import StepRunner


class CapturedStep(NamedTuple):
    """A captured step of one size, which is its number of tokens."""

    graph: Graph
    logits: torch.Tensor
    """[size, vocab_size]: the logits, which each replay overwrites."""


class GraphRunner(StepRunner[CapturedStep]):
    """A runner that captures a step as one graph: metadata, and all layers with their attention."""

    def _capture(self, common: CommonAttentionMetadata) -> CapturedStep:
        graph = current().graph()
        with graph.capture():
            metadata = self._metadata(common, for_capture=True)
            logits = self._forward(common.num_actual_tokens, metadata)
        return CapturedStep(graph, logits)

    def _replay(self, captured: CapturedStep, batch: ScheduledBatch) -> torch.Tensor:
        captured.graph.replay()
        return captured.logits
