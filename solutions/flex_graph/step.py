"""One step of a model, the same for all variants: only what is captured differs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch

from debubble.contract.steps import named_step

from . import before
from .builder import FlexAttentionMetadataBuilder
from .model.config import FlexConfig
from .model.model import Decoder
from .piecewise import PiecewiseRunner
from .runner import GraphRunner
from .steps.limits import Limits
from .steps.mask_once import MaskOnceRunner
from .steps.scheduled import ScheduledBatch
from .steps.step_runner import MetadataBuilder

Runner = GraphRunner | PiecewiseRunner


class FlexWay(NamedTuple):
    """The classes of a variant's runner and builder."""

    runner_class: type[Runner]
    builder_class: type[MetadataBuilder]
    captures: bool = True
    """True if steps are captured in graphs; False if all steps run eagerly."""


WAYS = {
    "eager": FlexWay(GraphRunner, before.FlexAttentionMetadataBuilder, captures=False),
    "piecewise": FlexWay(PiecewiseRunner, before.FlexAttentionMetadataBuilder),
    "piecewise_built": FlexWay(PiecewiseRunner, FlexAttentionMetadataBuilder),
    "full": FlexWay(GraphRunner, FlexAttentionMetadataBuilder),
    "mask_once": FlexWay(MaskOnceRunner, FlexAttentionMetadataBuilder),
}
"""The variants of a step. "eager" and "piecewise" build metadata as before the change.
"piecewise_built" builds it by the new code eagerly, "full" in its graph, and "mask_once" before its
graph, only for a batch other than the last step's."""
VARIANTS = tuple(WAYS)


class FlexStep:
    """A decoder with its KV cache, whose steps can run in each of VARIANTS."""

    def __init__(
        self,
        config: FlexConfig,
        limits: Limits,
        device: torch.device,
        variant: str = "full",
        capture_sizes: Iterable[int] | None = None,
    ) -> None:
        self.limits, self.device = limits, device
        self.capture_sizes = None if capture_sizes is None else tuple(capture_sizes)
        self.model = Decoder(config, limits, device)
        self.runners: dict[str, Runner] = {}
        self.use(variant)

    def use(self, variant: str) -> None:
        """Switches to the runner of one of VARIANTS; model and cache stay. The first use of a
        variant captures its graphs. Raises ValueError for another name."""
        if variant not in WAYS:
            raise ValueError(f"variant {variant!r}: choose one of {', '.join(VARIANTS)}")
        if variant not in self.runners:
            self.runners[variant] = self._runner(WAYS[variant])
        self.runner = self.runners[variant]

    def _runner(self, way: FlexWay) -> Runner:
        sizes = self.capture_sizes if way.captures else ()
        runner = way.runner_class(
            self.model, self.limits, self.device, sizes, builder_class=way.builder_class
        )
        runner.capture_model()
        return runner

    def run(self, batch: ScheduledBatch) -> torch.Tensor:
        """Queues a step that runs the batch and returns its logits [batch.num_tokens, vocab_size],
        which the next step overwrites."""
        with named_step(f"{batch.num_tokens:,} tokens"):
            return self.runner.step(batch)
