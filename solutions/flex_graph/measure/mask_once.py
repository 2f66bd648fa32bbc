"""A graph of the model alone: what the metadata costs in a full graph is the difference."""

from __future__ import annotations

import torch

from debubble.accelerator import current

from ..mask import AttentionMetadata
from ..runner import CapturedStep, GraphRunner
from ..steps.batch import CommonAttentionMetadata
from ..steps.scheduled import ScheduledBatch


class MaskOnceRunner(GraphRunner):
    """Its metadata is built before the graph, and again only for another batch object than in the
    last step: no way to serve, where every step's batch is another one."""

    _built_for: ScheduledBatch | None = None

    def _capture(self, common: CommonAttentionMetadata) -> CapturedStep:
        metadata = self._metadata(common, for_capture=True)
        graph = current().graph()
        with graph.capture():
            logits = self._forward(common.num_actual_tokens, metadata)
        return CapturedStep(graph, logits)

    def _replay(self, captured: CapturedStep, batch: ScheduledBatch) -> torch.Tensor:
        if batch is not self._built_for:
            self._metadata(self.inputs.common(len(captured.logits), batch.max_seq_len))
            self._built_for = batch
        return super()._replay(captured, batch)

    def _metadata(
        self, common: CommonAttentionMetadata, for_capture: bool = False
    ) -> dict[str, AttentionMetadata]:
        """In the memory that the last batch's is in."""
        self._built_for = None
        return super()._metadata(common, for_capture)
