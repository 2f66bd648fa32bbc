"""Attention layers with biases, as in Qwen2, with a gate, as in Qwen3-Next, and between two norms,
as in Gemma 3."""

from __future__ import annotations

from typing import Any, cast

import torch

from solutions.common.decoder.add_rms_norm import add_rms_norm
from solutions.common.decoder.few_rows import linear
from solutions.common.decoder.layer import Hidden, Mlp
from solutions.common.decoder.silu_and_mul import silu_and_mul
from solutions.common.decoder.weights import norm_weight, projection
from solutions.engine.model.config import ModelConfig
from solutions.engine.model.layers import AttentionLayer
from solutions.flex_graph.steps.inputs import ModelInputs


class GatedAttentionLayer(AttentionLayer):
    """A layer whose attention output is multiplied by the sigmoid of a gate, as in Qwen3-Next. Its
    mixing takes [T, qkv_size + query_size], queries, keys, values and gates; it returns [T,
    query_size]."""

    def add_weights(self, config: ModelConfig, device: torch.device) -> None:
        self.qkv_size = config.qkv_size
        rows = config.qkv_size + config.query_size
        self.qkv_proj = projection(rows, config.hidden_size, config, device)

    def mix(
        self, qkv_and_gate: torch.Tensor, inputs: ModelInputs, metadata: object
    ) -> torch.Tensor:
        qkv, gate = qkv_and_gate.split([self.qkv_size, self.mixed_size], dim=1)
        return self.attention.forward(qkv, inputs, cast(Any, metadata)) * gate.sigmoid()


class BiasedAttentionLayer(AttentionLayer):
    """A layer that adds a bias to queries, keys and values, as in Qwen2."""

    def add_weights(self, config: ModelConfig, device: torch.device) -> None:
        self.qkv_bias = torch.zeros(config.qkv_size, dtype=config.dtype, device=device)

    def before_mixing(self, hidden: Hidden) -> torch.Tensor:
        return self.before_attention(hidden).add_(self.qkv_bias)


class SandwichMlp(Mlp):
    """An MLP between two norms, as in Gemma 3: the second norm comes before the sum."""

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        super().__init__(config, device)
        self.norm_behind = norm_weight(config, device)

    def forward(self, hidden: Hidden) -> Hidden:
        normed = add_rms_norm(hidden.residual, hidden.update, self.norm, self.eps)
        gated = silu_and_mul(linear(normed, self.gate_up_proj), "gelu_tanh")
        update = linear(gated, self.down_proj)
        return Hidden(hidden.residual, add_rms_norm(update, None, self.norm_behind, self.eps))


class SandwichLayer(AttentionLayer):
    """A layer with attention and MLP each between two norms, as in Gemma 3."""

    def add_weights(self, config: ModelConfig, device: torch.device) -> None:
        self.norm_behind = norm_weight(config, device)
        self.mlp = SandwichMlp(config, device)

    def after_mixing(self, hidden: Hidden, mixed: torch.Tensor) -> Hidden:
        update = linear(mixed, self.o_proj)
        update = add_rms_norm(update, None, self.norm_behind, self.eps)
        return self.mlp.forward(Hidden(hidden.residual, update))
