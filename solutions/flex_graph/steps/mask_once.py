"""A graph of the model alone. A full graph takes longer by the cost of the metadata."""

from __future__ import annotations

import torch

from ..mask import AttentionMetadata
from ..runner import CapturedStep, GraphRunner
from .batch import CommonAttentionMetadata
from .scheduled import ScheduledBatch
from .step_runner import profile_batch
from .warm_up import warm_up_and_capture


class MaskOnceRunner(GraphRunner):
    """A runner that builds a step's metadata before the graph, and only if the batch object is not
    the last step's. It can't be used to serve, where every step has a new batch."""

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
        """Builds the metadata of each layer, over that of the last batch, so that no graph is valid
        for the last batch any more."""
        self._built_for = None
        return super()._metadata(common, for_capture)
