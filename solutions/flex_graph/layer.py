"""A decoder layer in two halves: what comes before attention, and what comes after it."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F

from .add_rms_norm import add_rms_norm
from .attention import FlexAttention
from .config import FlexConfig
from .kv_cache import KVCache
from .limits import Limits
from .silu_and_mul import silu_and_mul


class Hidden(NamedTuple):
    """What one layer hands to the next: a sum that is still to be taken, since the norm behind it
    takes it in the same launch. Give it to one successor: that one writes the sum to `residual`."""

    residual: torch.Tensor
    """[T, hidden_size]."""
    update: torch.Tensor | None
    """[T, hidden_size], or None where there is nothing to add yet."""


class DecoderLayer:
    """Random weights, of PyTorch's seed as it is. Attention lies between the halves, so that each
    half can be captured without it."""

    def __init__(
        self, config: FlexConfig, limits: Limits, cos_sin: torch.Tensor, device: torch.device
    ) -> None:
        self.eps = config.norm_eps

        def projection(rows: int, columns: int) -> torch.Tensor:
            """What is of size 1 stays so."""
            weight = torch.randn(rows, columns, dtype=config.dtype, device=device)
            return weight.mul_(columns**-0.5)

        hidden_size, intermediate_size = config.hidden_size, config.intermediate_size
        self.attention_norm = norm_weight(config, device)
        self.qkv_proj = projection(config.qkv_size, hidden_size)
        self.o_proj = projection(hidden_size, config.query_size)
        self.mlp_norm = norm_weight(config, device)
        self.gate_up_proj = projection(2 * intermediate_size, hidden_size)
        self.down_proj = projection(hidden_size, intermediate_size)
        cache = KVCache(
            limits.num_gpu_blocks,
            limits.block_size,
            config.num_kv_heads,
            config.head_size,
            config.dtype,
            device,
        )
        self.attention = FlexAttention(config.num_heads, cache, cos_sin)

    def before_attention(self, hidden: Hidden) -> torch.Tensor:
        """[T, (num_heads + 2 * num_kv_heads) * head_size]: queries, keys, values."""
        normed = add_rms_norm(hidden.residual, hidden.update, self.attention_norm, self.eps)
        return F.linear(normed, self.qkv_proj)

    def after_attention(self, hidden: Hidden, attended: torch.Tensor) -> Hidden:
        """`hidden` is what `before_attention` was given, `attended` [T, num_heads * head_size]."""
        update = F.linear(attended, self.o_proj)
        normed = add_rms_norm(hidden.residual, update, self.mlp_norm, self.eps)
        gated = silu_and_mul(F.linear(normed, self.gate_up_proj))
        return Hidden(hidden.residual, F.linear(gated, self.down_proj))


def norm_weight(config: FlexConfig, device: torch.device) -> torch.Tensor:
    """[hidden_size], around 1."""
    weight = torch.randn(config.hidden_size, dtype=config.dtype, device=device)
    return weight.mul_(0.1).add_(1.0)
