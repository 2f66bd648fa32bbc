"""A decoder layer in two halves: the part before attention, and the part after it."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import torch

from .add_rms_norm import add_rms_norm
from .attention import CachedAttention
from .few_rows import gated_linear, linear
from .shape import DecoderConfig
from .weights import norm_weight, projection

Attention = TypeVar("Attention", bound=CachedAttention)


class Hidden(NamedTuple):
    """The output of a layer as two parts of a sum, which the next norm adds in its own launch. Pass
    it to one layer only: that layer writes the sum to `residual`."""

    residual: torch.Tensor
    """[T, hidden_size]: the sum of all layers so far, without `update`."""
    update: torch.Tensor | None
    """[T, hidden_size]: the part that is still to be added, or None before the first layer."""


class DecoderLayer(Generic[Attention]):
    """A decoder layer with random weights, drawn from PyTorch's current seed, in two halves. The
    caller runs attention between the halves, so that each half can be captured without it."""

    def __init__(self, config: DecoderConfig, attention: Attention, device: torch.device) -> None:
        self.eps, self.attention = config.norm_eps, attention
        self.attention_norm = norm_weight(config, device)
        self.qkv_proj = projection(config.qkv_size, config.hidden_size, config, device)
        self.o_proj = projection(config.hidden_size, config.query_size, config, device)
        self.mlp = Mlp(config, device)

    def before_attention(self, hidden: Hidden) -> torch.Tensor:
        """Returns [T, (num_heads + 2 * num_kv_heads) * head_size]: queries, keys, values."""
        normed = add_rms_norm(hidden.residual, hidden.update, self.attention_norm, self.eps)
        return linear(normed, self.qkv_proj)

    def after_attention(self, hidden: Hidden, attended: torch.Tensor) -> Hidden:
        """Returns the layer's output. `hidden` is the argument of `before_attention`, `attended` is
        [T, num_heads * head_size]."""
        return self.mlp.forward(Hidden(hidden.residual, linear(attended, self.o_proj)))


class Mlp:
    """The second half of every layer: norm, gates, and the projection back to hidden_size."""

    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        self.eps = config.norm_eps
        self.norm = norm_weight(config, device)
        self.gate_up_proj = projection(
            2 * config.intermediate_size, config.hidden_size, config, device
        )
        self.down_proj = projection(config.hidden_size, config.intermediate_size, config, device)

    def forward(self, hidden: Hidden) -> Hidden:
        normed = add_rms_norm(hidden.residual, hidden.update, self.norm, self.eps)
        gated = gated_linear(normed, self.gate_up_proj)
        return Hidden(hidden.residual, linear(gated, self.down_proj))
