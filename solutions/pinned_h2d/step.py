"""One engine step, the same for before and after: only metadata and runner differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from . import before, metadata, runner
from .batch import PagedRequests
from .config import StepConfig
from .model import Decoder

Variant = Literal["before", "after"]


class Engine:
    """A model, its requests, and the steps that they take: `prefill`, then `decode`.

    What a scheduler prepares for a step (batch, tokens) is on the device before the step begins,
    so that all the uploads of a step are those of its prefix ranges.
    """

    def __init__(
        self, config: StepConfig, device: torch.device, variant: Variant = "after"
    ) -> None:
        self.config, self.device = config, device
        self.ranges = config.ranges()
        self.requests = PagedRequests(
            config.num_requests, config.tokens_per_request + 1, config.block_size, config.seed
        )
        self.model = Decoder(config, self.requests.num_blocks, device)
        length = config.tokens_per_request
        self.prefill_batch = self.make_batch([range(length)] * config.num_requests)
        self.decode_batch = self.make_batch([range(length, length + 1)] * config.num_requests)
        self.use(variant)

    def make_batch(self, scheduled: Sequence[range]):
        batch = self.requests.batch(scheduled, self.device)
        shape = (batch.num_tokens, self.config.hidden_size)
        return batch, torch.randn(shape, dtype=self.config.dtype, device=self.device)

    def use(self, variant: Variant) -> None:
        """Switches to the code as it was, or as it is; model and requests stay."""
        if variant == "before":
            self.metadata_class, self.runner = before.TritonAttentionMetadata, before.ModelRunner()
        elif variant == "after":
            self.metadata_class = metadata.TritonAttentionMetadata
            self.runner = runner.ModelRunner(
                self.config.num_requests, self.config.max_ranges, self.device
            )
        else:
            raise ValueError(f"variant {variant!r}: choose 'before' or 'after'")

    def prefill(self) -> torch.Tensor:
        """All prompts at once: [num_requests * tokens_per_request, hidden_size]."""
        return self.step(*self.prefill_batch)

    def decode(self) -> torch.Tensor:
        """One token of each request, behind its prompt: [num_requests, hidden_size]."""
        return self.step(*self.decode_batch)

    def step(self, batch, hidden: torch.Tensor) -> torch.Tensor:
        attn_metadata = {name: self.metadata_class(batch) for name in self.model.layers}
        self.runner._set_mm_prefix_range_for_metadata(attn_metadata, self.ranges)
        return self.model.forward(hidden, attn_metadata)
