"""A graph of the model alone: what the metadata costs in a full graph is the difference."""

from __future__ import annotations

import torch

from ..mask import AttentionMetadata
from ..runner import CapturedStep, GraphRunner
from .batch import CommonAttentionMetadata
from .scheduled import ScheduledBatch
from .step_runner import profile_batch
from .warm_up import warm_up_and_capture


class MaskOnceRunner(GraphRunner):
    """Its metadata is built before the graph, and again only for another batch object than in the
    last step: no way to serve, where every step's batch is another one."""

    _built_for: ScheduledBatch | None = None

    def _warmup_and_capture(self, num_tokens: int, profile_seq_lens: int) -> None:
        self.inputs.upload(profile_batch(num_tokens, profile_seq_lens, self.limits))
        common = self.inputs.common(num_tokens, profile_seq_lens)
        metadata = self._metadata(common, for_capture=True)

        def forward(num_tokens: int, seq_len: int) -> torch.Tensor:
            return self._forward(num_tokens, metadata)

        captured = warm_up_and_capture(
            forward, self.inputs.slot_mapping, [num_tokens], profile_seq_lens
        )
        self.captured[num_tokens] = CapturedStep(*captured[num_tokens])

    def _replay(self, captured: CapturedStep, batch: ScheduledBatch) -> torch.Tensor:
        if batch is not self._built_for:
            self._metadata(self.inputs.common(len(captured.logits), batch.max_seq_len))
            self._built_for = batch
        return super()._replay(captured, batch)

    def _metadata(
        self, common: CommonAttentionMetadata, for_capture: bool = False
    ) -> dict[str, AttentionMetadata]:
        """Overwrites the metadata of the last batch, so that no graph is good for that one."""
        self._built_for = None
        return super()._metadata(common, for_capture)
