"""One engine step, the same before and after the change: only metadata and runner differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

import torch

from debubble.contract.steps import named_step

from . import before, metadata
from .model.batch import Batch, PagedRequests
from .model.config import ImageStepConfig
from .model.model import PrefixDecoder, PrefixMetadata
from .ranges import PrefixRanges

Variant = Literal["before", "after"]
Metadata = TypeVar("Metadata", bound=PrefixMetadata)


class Runner(Protocol[Metadata]):
    """A ModelRunner, that of before.py or that of metadata.py."""

    def _set_mm_prefix_range_for_metadata(
        self, attn_metadata: dict[str, Metadata], ranges: PrefixRanges | None
    ) -> None: ...


@dataclass(frozen=True)
class Preparation(Generic[Metadata]):
    """One variant's metadata class and runner, which together make a step's metadata."""

    metadata_class: Callable[[Batch], Metadata]
    runner: Runner[Metadata]

    def metadata_of(
        self, batch: Batch, layers: Iterable[str], ranges: PrefixRanges | None
    ) -> dict[str, Metadata]:
        """Returns a step's metadata for these layers, by layer name, with the step's ranges set."""
        attn_metadata = {name: self.metadata_class(batch) for name in layers}
        self.runner._set_mm_prefix_range_for_metadata(attn_metadata, ranges)
        return attn_metadata


AsItWas = Preparation[before.TritonAttentionMetadata]
AsItIs = Preparation[metadata.TritonAttentionMetadata]


class ImageSteps:
    """A model, its requests, and the two steps that run them: `prefill`, then `decode`.

    Whatever a scheduler prepares for a step (batch, tokens) is on the device before the step
    begins, so the prefix ranges are all that a step uploads.
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
        """Returns a batch of the positions `scheduled[i]` of each request i, and random hidden
        states of its tokens before the first layer, [num_tokens, hidden_size]."""
        batch = self.requests.batch(scheduled, self.device)
        shape = (batch.num_tokens, self.config.hidden_size)
        return batch, torch.randn(shape, dtype=self.config.dtype, device=self.device)

    def use(self, variant: Variant) -> None:
        """Switches to the code of before.py ("before") or metadata.py ("after"); model and requests
        stay. Raises ValueError for another name."""
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
        """Runs all prompts in one step and returns the hidden states of their tokens after the last
        layer, [num_requests * tokens_per_request, hidden_size]."""
        with named_step("prefill"):
            return self.step(*self.prefill_batch)

    def decode(self) -> torch.Tensor:
        """Runs one token after each prompt and returns its hidden states after the last layer,
        [num_requests, hidden_size]."""
        with named_step("decode"):
            return self.step(*self.decode_batch)

    def step(self, batch: Batch, hidden: torch.Tensor) -> torch.Tensor:
        """Runs the layers on `hidden` and returns the hidden states after the last one,
        [num_tokens, hidden_size]."""
        attn_metadata = self.preparation.metadata_of(batch, self.model.layers, self.ranges)
        return self.model.forward(hidden, attn_metadata)
