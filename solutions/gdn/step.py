"""One step of a model, the same for all variants: only where its chunk tables are made differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from debubble.contract.steps import named_step
from solutions.common.staging_ring import STEPS_IN_FLIGHT, StagingRing

from . import each_layer
from .metadata import GDNAttentionMetadataBuilder, Tables
from .model.config import GDNConfig
from .model.layer import GDNModel, GDNState
from .requests.batch import GDNCommonMetadata, starts_of
from .rule.chunk_gated_delta_rule import chunk_gated_delta_rule

MOST_TOKENS = 16384
"""The most tokens of one step: the staging memory of its upload is large enough for them."""


class GDNWay(NamedTuple):
    """The code with which a variant makes and uses its chunk tables."""

    tables: Tables | None
    """The place where the builder makes the tables, "host" or "device"; None leaves them to the
    rule, in each layer."""
    rule: Callable[..., tuple[torch.Tensor, torch.Tensor | None]]
    """Function that each layer calls for its prefills, with the arguments of
    `chunk_gated_delta_rule`."""


WAYS = {
    "before": GDNWay(None, each_layer.chunk_gated_delta_rule),
    "cached": GDNWay(None, partial(each_layer.chunk_gated_delta_rule, cached=True)),
    "after": GDNWay("host", chunk_gated_delta_rule),
    "on_device": GDNWay("device", chunk_gated_delta_rule),
}
VARIANTS = tuple(WAYS)


@dataclass(frozen=True)
class GDNBatch:
    """A step's batch as a scheduler prepares it. It is on the device before the step begins, so
    that a step uploads only what it makes itself."""

    common: GDNCommonMetadata
    hidden: torch.Tensor
    """[num_actual_tokens, hidden_size]: the tokens' hidden states before the first layer. More rows
    only pad the batch."""
    num_accepted_tokens: torch.Tensor | None = None
    """Argument of `GDNAttentionMetadataBuilder.build`, as is `num_decode_draft_tokens_cpu`."""
    num_decode_draft_tokens_cpu: torch.Tensor | None = None


class GDNStep:
    """A model with the states of its layers, which runs one batch a step, in any of VARIANTS."""

    def __init__(self, config: GDNConfig, device: torch.device, variant: str = "after") -> None:
        self.config, self.device = config, device
        self.model = GDNModel(config, device)
        self.states = [GDNState.zeros(config, device) for _ in self.model.layers]
        self.ring = StagingRing((most_bytes(config.num_slots),), torch.uint8, STEPS_IN_FLIGHT)
        self.use(variant)

    def use(self, variant: str) -> None:
        """Switches to the tables and the rule of one of VARIANTS; model and states stay. Raises
        ValueError for another name."""
        if variant not in WAYS:
            raise ValueError(f"variant {variant!r}: choose one of {', '.join(VARIANTS)}")
        tables, rule = WAYS[variant]
        self.builder = GDNAttentionMetadataBuilder(self.device, tables, self.ring)
        for layer in self.model.layers:
            layer.chunk_gated_delta_rule = rule

    def schedule(
        self, query_lens: Sequence[int], computed: Sequence[int] | None = None
    ) -> GDNBatch:
        """Returns a batch of random inputs. Request i has `query_lens[i]` tokens in this step,
        continues from the state in slot i if `computed[i]` tokens were computed before (default:
        none), and writes its new state there. Decodes come first, and requests without tokens last.

        Raises ValueError for more requests than slots, and for more than MOST_TOKENS tokens.
        """
        num_requests, num_tokens = len(query_lens), sum(query_lens)
        if num_requests > self.config.num_slots:
            raise ValueError(
                f"{num_requests} requests for {self.config.num_slots} slots: each needs one of its "
                "own, so give the config a larger num_slots"
            )
        if num_tokens > MOST_TOKENS:
            raise ValueError(
                f"{num_tokens} tokens in one step: it takes {MOST_TOKENS}, so give each prompt's "
                "tokens to several steps"
            )
        lengths = np.array(query_lens, np.int64)
        before_it = np.array([0] * num_requests if computed is None else computed, np.int64)
        starts, seq_lens = starts_of(lengths), (lengths + before_it).astype(np.int32)
        slots = np.arange(num_requests, dtype=np.int32)[:, None]
        common = GDNCommonMetadata(
            query_start_loc=self._on_device(starts),
            query_start_loc_cpu=starts,
            seq_lens=self._on_device(seq_lens),
            seq_lens_cpu=seq_lens,
            state_indices=self._on_device(slots),
            num_actual_tokens=num_tokens,
        )
        shape = (num_tokens, self.config.hidden_size)
        hidden = torch.randn(shape, dtype=self.config.dtype, device=self.device)
        return GDNBatch(common, hidden)

    def _on_device(self, numbers: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(numbers).to(self.device)

    def run(self, batch: GDNBatch) -> torch.Tensor:
        """Queues a step that runs the batch, and returns the hidden states after all layers, on the
        device."""
        with named_step(f"{len(batch.hidden):,} tokens"):
            metadata = self.builder.build(
                batch.common, batch.num_accepted_tokens, batch.num_decode_draft_tokens_cpu
            )
            return self.model.forward(batch.hidden, metadata, self.states)


def most_bytes(num_requests: int) -> int:
    """Returns the most bytes that the plans of a step with `num_requests` requests take. Each token
    takes its place in the batch (8 bytes) and its share of its chunks (less than 2). Each request
    takes its starts, its flag, its row, and the chunks that it fills in part (less than 64)."""
    return (8 + 2) * MOST_TOKENS + 64 * num_requests + 1024
