"""The layers of a hybrid model, each in two halves with its mixing of tokens between them."""

from __future__ import annotations

from copy import copy
from typing import Any, Literal, Self, cast

import torch

from solutions.common.decoder.add_rms_norm import add_rms_norm
from solutions.common.decoder.attention import CachedAttention
from solutions.common.decoder.kv_cache import KVCache
from solutions.common.decoder.layer import DecoderLayer, Hidden, Mlp
from solutions.common.decoder.rotate_and_cache import HeadNorms
from solutions.common.decoder.weights import norm_weight
from solutions.flex_graph import Limits
from solutions.flex_graph.model.attention import FlexAttention
from solutions.flex_graph.steps.inputs import ModelInputs
from solutions.gdn import GDNAttentionMetadata, GDNLayer, GDNState
from solutions.pinned_h2d import prefix_attention
from solutions.pinned_h2d.model.model import PrefixMetadata

from .config import ModelConfig


class SpanAttention(CachedAttention):
    """An alternative to FlexAttention for images, whose tokens attend to one another both ways: a
    Triton kernel that reads the images' ranges."""

    window: int | None = None
    """How many tokens a query attends to, itself included, apart from those of the image that it is
    in; None is all."""

    def forward(
        self, qkv: torch.Tensor, inputs: ModelInputs, metadata: PrefixMetadata
    ) -> torch.Tensor:
        """Returns the attention output [T, num_heads * head_size] for `qkv` [T, (num_heads + 2 *
        num_kv_heads) * head_size]."""
        query = self.turned_queries(qkv, inputs.positions, inputs.slot_mapping)
        attended = prefix_attention(
            query,
            self.cache.key,
            self.cache.value,
            metadata.batch,
            ranges=metadata.mm_prefix_range_tensor,
            window=self.window,
            # A graph may have rows without a token, which stay zero.
            output=query.new_zeros(query.shape),
        )
        return attended.flatten(1)


class AttentionLayer(DecoderLayer[FlexAttention | SpanAttention]):
    """A layer whose mixing is attention: it takes [T, qkv_size] and returns [T, query_size]."""

    def __init__(
        self,
        kind: Literal["flex", "spans"],
        config: ModelConfig,
        limits: Limits,
        cos_sin: torch.Tensor,
        window: int | None = None,
    ) -> None:
        attention = FlexAttention if kind == "flex" else SpanAttention
        blocks = (limits.num_gpu_blocks, limits.block_size)
        super().__init__(config, attention.of(config, *blocks, cos_sin), cos_sin.device)
        self.kind, self.mixed_size = kind, config.query_size
        if isinstance(self.attention, SpanAttention):
            self.attention.window = window
        else:
            self.attention.has_kernel_for_many = config.has_kernel_for_many
            if config.has_kernel_for_few:
                self.attention.use_kernel_for_few_tokens()
        if config.architecture.mlp is not None:
            self.mlp = config.architecture.mlp(config, cos_sin.device)  # type: ignore[assignment]  # forward alone is used
        if config.architecture.head_norms:
            ones = torch.ones(2, config.head_size, dtype=config.dtype, device=cos_sin.device)
            self.attention.norms = HeadNorms(ones[0], ones[1], config.norm_eps)
        self.add_weights(config, cos_sin.device)

    def add_weights(self, config: ModelConfig, device: torch.device) -> None:
        """Adds the weights that only this kind of attention layer has: here none."""

    before_mixing = DecoderLayer.before_attention
    after_mixing = DecoderLayer.after_attention

    @property
    def cache(self) -> KVCache:
        return self.attention.cache

    def mix(self, qkv: torch.Tensor, inputs: ModelInputs, metadata: object) -> torch.Tensor:
        """Returns the attention output [T, query_size] for `qkv` [T, qkv_size]. `metadata` comes
        from the backend of this kind, for this layer."""
        return self.attention.forward(qkv, inputs, cast(Any, metadata))

    def twin(self, limits: Limits, cos_sin: torch.Tensor) -> Self:
        """Returns a layer with the same weights and an empty cache."""
        twin = copy(self)
        blocks = (limits.num_gpu_blocks, limits.block_size)
        twin.attention = self.attention.empty_twin(*blocks, cos_sin)
        return twin


class GatedDeltaNetLayer:
    """A layer whose mixing is Gated DeltaNet: it takes and returns [T, hidden_size]."""

    kind: Literal["gdn"] = "gdn"

    def __init__(
        self, config: ModelConfig, num_slots: int, state: GDNState, device: torch.device
    ) -> None:
        self.eps, self.state = config.norm_eps, state
        self.norm = norm_weight(config, device)
        self.delta_net = GDNLayer(config.gdn(num_slots), device)
        self.mlp = (config.architecture.mlp or Mlp)(config, device)
        self.mixed_size = config.hidden_size

    def before_mixing(self, hidden: Hidden) -> torch.Tensor:
        return add_rms_norm(hidden.residual, hidden.update, self.norm, self.eps)

    def mix(self, normed: torch.Tensor, inputs: ModelInputs, metadata: object) -> torch.Tensor:
        """Returns the output of Gated DeltaNet, [T, hidden_size], for `normed` of that shape.
        `metadata` comes from the backend of this kind, for this layer."""
        return self.delta_net.forward(normed, cast(GDNAttentionMetadata, metadata), self.state)

    def after_mixing(self, hidden: Hidden, mixed: torch.Tensor) -> Hidden:
        return self.mlp.forward(Hidden(hidden.residual, mixed))

    def twin(self, state: GDNState) -> GatedDeltaNetLayer:
        """Returns a layer with the same weights, whose state is `state`."""
        twin = copy(self)
        twin.delta_net, twin.state = copy(self.delta_net), state
        return twin


Layer = AttentionLayer | GatedDeltaNetLayer
