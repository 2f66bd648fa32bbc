"""One engine step, the same for before and after: only metadata and runner differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

import torch

from . import before, metadata
from .model.batch import Batch, PagedRequests
from .model.config import ImageStepConfig
from .model.model import PrefixDecoder, PrefixMetadata
from .ranges import PrefixRanges

Variant = Literal["before", "after"]
Metadata = TypeVar("Metadata", bound=PrefixMetadata)


class Runner(Protocol[Metadata]):
    """A ModelRunner: that of before.py, or that of metadata.py."""

    def _set_mm_prefix_range_for_metadata(
        self, attn_metadata: dict[str, Metadata], ranges: PrefixRanges | None
    ) -> None: ...


@dataclass(frozen=True)
class Preparation(Generic[Metadata]):
    """How a step's metadata is made: by the code as it was, or by the code as it is."""

    metadata_class: Callable[[Batch], Metadata]
    runner: Runner[Metadata]

    def metadata_of(
        self, batch: Batch, layers: Iterable[str], ranges: PrefixRanges | None
    ) -> dict[str, Metadata]:
        """The metadata of each of these layers, by layer name, with the step's ranges."""
        attn_metadata = {name: self.metadata_class(batch) for name in layers}
        self.runner._set_mm_prefix_range_for_metadata(attn_metadata, ranges)
        return attn_metadata


AsItWas = Preparation[before.TritonAttentionMetadata]
AsItIs = Preparation[metadata.TritonAttentionMetadata]


class ImageSteps:
    """A model, its requests, and the steps that they take: `prefill`, then `decode`.

    What a scheduler prepares for a step (batch, tokens) is on the device before the step begins,
    so that all the uploads of a step are those of its prefix ranges.
    """

    preparation: AsItWas | AsItIs

    def __init__(
        self, config: ImageStepConfig, device: torch.device, variant: Variant = "after"
    ) -> None:
        self.config, self.device = config, device
        self.ranges = config.ranges()
        self.requests = PagedRequests(
            config.num_requests, config.tokens_per_request + 1, config.block_size, config.seed
        )
        self.model = PrefixDecoder(config, self.requests.num_blocks, device)
        length = config.tokens_per_request
        self.prefill_batch = self.make_batch([range(length)] * config.num_requests)
        self.decode_batch = self.make_batch([range(length, length + 1)] * config.num_requests)
        self.use(variant)

    def make_batch(self, scheduled: Sequence[range]) -> tuple[Batch, torch.Tensor]:
        """A batch, and what its tokens are before the first layer: [num_tokens, hidden_size]."""
        batch = self.requests.batch(scheduled, self.device)
        shape = (batch.num_tokens, self.config.hidden_size)
        return batch, torch.randn(shape, dtype=self.config.dtype, device=self.device)

    def use(self, variant: Variant) -> None:
        """Switches to before.py or to metadata.py ("after"); model and requests stay. ValueError
        for another name."""
        if variant == "before":
            self.preparation = Preparation(before.TritonAttentionMetadata, before.ModelRunner())
        elif variant == "after":
            now = metadata.ModelRunner(
                self.config.num_requests, self.config.max_ranges, self.device
            )
            self.preparation = Preparation(metadata.TritonAttentionMetadata, now)
        else:
            raise ValueError(f"variant {variant!r}: choose 'before' or 'after'")

    def prefill(self) -> torch.Tensor:
        """All prompts at once: [num_requests * tokens_per_request, hidden_size]."""
        return self.step(*self.prefill_batch)

    def decode(self) -> torch.Tensor:
        """One token of each request, behind its prompt: [num_requests, hidden_size]."""
        return self.step(*self.decode_batch)

    def step(self, batch: Batch, hidden: torch.Tensor) -> torch.Tensor:
        """`hidden`, [num_tokens, hidden_size] before the first layer, as it is behind the last."""
        attn_metadata = self.preparation.metadata_of(batch, self.model.layers, self.ranges)
        return self.model.forward(hidden, attn_metadata)
