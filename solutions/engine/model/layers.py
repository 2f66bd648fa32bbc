"""The layers of a hybrid model, each in two halves with its mixing of tokens between them."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Literal, Self, cast

import torch

from solutions.common.decoder.add_rms_norm import add_rms_norm
from solutions.common.decoder.kv_cache import KVCache
from solutions.common.decoder.rotate_and_cache import rotate_and_cache
from solutions.flex_graph import Limits
from solutions.flex_graph.model.layer import DecoderLayer, Hidden, Mlp, norm_weight
from solutions.flex_graph.steps.inputs import ModelInputs
from solutions.gdn import GDNAttentionMetadata, GDNLayer, GDNState
from solutions.pinned_h2d import prefix_attention

from .config import ModelConfig

if TYPE_CHECKING:
    from solutions.flex_graph.mask import AttentionMetadata
    from solutions.pinned_h2d.model.model import PrefixMetadata


class SpanAttention:
    """FlexAttention's twin for images, whose tokens see one another both ways: the same rotation
    and cache, and a Triton kernel that reads the ranges."""

    def __init__(self, num_heads: int, cache: KVCache, cos_sin: torch.Tensor) -> None:
        self.num_heads, self.cache, self.cos_sin = num_heads, cache, cos_sin

    def forward(
        self, qkv: torch.Tensor, inputs: ModelInputs, metadata: PrefixMetadata
    ) -> torch.Tensor:
        """[T, num_heads * head_size] for `qkv` [T, (num_heads + 2 * num_kv_heads) * head_size]."""
        query = rotate_and_cache(
            qkv, inputs.positions, inputs.slot_mapping, self.cos_sin, self.cache, self.num_heads
        )
        attended = prefix_attention(
            query,
            self.cache.key,
            self.cache.value,
            metadata.batch,
            ranges=metadata.mm_prefix_range_tensor,
            # In a graph there may be rows without a token.
            output=query.new_zeros(query.shape),
        )
        return attended.flatten(1)


class AttentionLayer(DecoderLayer):
    """FlexAttention. Between the halves: [T, qkv_size], then [T, query_size]."""

    kind: Literal["flex", "spans"] = "flex"

    def __init__(
        self, config: ModelConfig, limits: Limits, cos_sin: torch.Tensor, device: torch.device
    ) -> None:
        super().__init__(config, limits, cos_sin, device)
        self.mixed_size = config.query_size

    before_mixing = DecoderLayer.before_attention
    after_mixing = DecoderLayer.after_attention

    @property
    def cache(self) -> KVCache:
        return self.attention.cache

    def mix(self, qkv: torch.Tensor, inputs: ModelInputs, metadata: object) -> torch.Tensor:
        """`metadata` is what the backend of this kind made for this layer."""
        return self.attention.forward(qkv, inputs, cast("AttentionMetadata", metadata))

    def twin(self, limits: Limits, cos_sin: torch.Tensor) -> Self:
        """The same weights, and an empty cache."""
        twin = copy(self)
        twin.attention = copy(self.attention)
        twin.attention.cos_sin = cos_sin
        twin.attention.cache = self.cache.empty_twin(limits.num_gpu_blocks, limits.block_size)
        return twin


class SpanLayer(AttentionLayer):
    """Attention in which an image's tokens see one another both ways, over the same cache."""

    kind = "spans"

    def __init__(
        self, config: ModelConfig, limits: Limits, cos_sin: torch.Tensor, device: torch.device
    ) -> None:
        super().__init__(config, limits, cos_sin, device)
        self.span_attention = SpanAttention(config.num_heads, self.cache, cos_sin)

    def mix(self, qkv: torch.Tensor, inputs: ModelInputs, metadata: object) -> torch.Tensor:
        """`metadata` is what the backend of this kind made for this layer."""
        return self.span_attention.forward(qkv, inputs, cast("PrefixMetadata", metadata))

    def twin(self, limits: Limits, cos_sin: torch.Tensor) -> Self:
        twin = super().twin(limits, cos_sin)
        twin.span_attention = SpanAttention(self.span_attention.num_heads, twin.cache, cos_sin)
        return twin


class GatedDeltaNetLayer:
    """Between the halves: [T, hidden_size] both times."""

    kind: Literal["gdn"] = "gdn"

    def __init__(
        self, config: ModelConfig, num_slots: int, state: GDNState, device: torch.device
    ) -> None:
        self.eps, self.state = config.norm_eps, state
        self.norm = norm_weight(config, device)
        self.delta_net = GDNLayer(config.gdn(num_slots), device)
        self.mlp = Mlp(config, device)
        self.mixed_size = config.hidden_size

    def before_mixing(self, hidden: Hidden) -> torch.Tensor:
        return add_rms_norm(hidden.residual, hidden.update, self.norm, self.eps)

    def mix(self, normed: torch.Tensor, inputs: ModelInputs, metadata: object) -> torch.Tensor:
        """`metadata` is what the backend of this kind made for this layer."""
        return self.delta_net.forward(normed, cast(GDNAttentionMetadata, metadata), self.state)

    def after_mixing(self, hidden: Hidden, mixed: torch.Tensor) -> Hidden:
        return self.mlp.forward(Hidden(hidden.residual, mixed))

    def twin(self, state: GDNState) -> GatedDeltaNetLayer:
        """The same weights, and another state."""
        twin = copy(self)
        twin.delta_net, twin.state = copy(self.delta_net), state
        return twin


Layer = AttentionLayer | GatedDeltaNetLayer
