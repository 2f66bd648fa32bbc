"""The definition of a decoder: one request from its first token on, no cache, plain PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from solutions.common.decoder.layer import DecoderLayer
from solutions.flex_graph.mask import Mask
from solutions.flex_graph.model.model import Decoder


class ReferenceModel:
    """A reference model with the weights and masks of `model`, in float32 on the CPU."""

    def __init__(self, model: Decoder) -> None:
        self.config, self.masks = model.config, model.mask_of
        self.weights = tensors_of(model)
        self.layers = {
            name: tensors_of(layer) | {"mlp": tensors_of(layer.mlp)}
            for name, layer in model.layers.items()
        }

    def logits(self, token_ids) -> torch.Tensor:
        """Returns the logits after each token, [len(token_ids), vocab_size]."""
        hidden = self.weights["embedding"][torch.as_tensor(token_ids).long()]
        for name, weights in self.layers.items():
            hidden = hidden + self._attention(hidden, weights, self.masks[name])
            hidden = hidden + self._mlp(hidden, weights["mlp"])
        return self._norm(hidden, self.weights["final_norm"]) @ self.weights["lm_head"].T

    def _attention(self, hidden: torch.Tensor, weights, mask: Mask) -> torch.Tensor:
        config = self.config
        qkv = self._norm(hidden, weights["attention_norm"]) @ weights["qkv_proj"].T
        heads = qkv.unflatten(1, (-1, config.head_size)).transpose(0, 1)
        kv_heads = config.num_kv_heads
        query, key, value = heads.split([config.num_heads, kv_heads, kv_heads])
        group = config.num_heads // kv_heads
        query, key = rotated(query, config.rope_theta), rotated(key, config.rope_theta)
        scores = query @ key.repeat_interleave(group, 0).mT * config.head_size**-0.5
        scores = scores.masked_fill(~allowed_pairs(mask, len(hidden)), -torch.inf)
        attended = scores.softmax(-1) @ value.repeat_interleave(group, 0)
        return attended.transpose(0, 1).flatten(1) @ weights["o_proj"].T

    def _mlp(self, hidden: torch.Tensor, weights) -> torch.Tensor:
        normed = self._norm(hidden, weights["norm"])
        gate, up = (normed @ weights["gate_up_proj"].T).chunk(2, dim=1)
        return (F.silu(gate) * up) @ weights["down_proj"].T

    def _norm(self, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(hidden, weight.shape, weight, self.config.norm_eps)


def tensors_of(part: Decoder | DecoderLayer) -> dict[str, torch.Tensor]:
    found = {name: value for name, value in vars(part).items() if isinstance(value, torch.Tensor)}
    return {name: value.cpu().float() for name, value in found.items()}


def rotated(heads: torch.Tensor, theta: float) -> torch.Tensor:
    """Returns [H, n, D] rotated to positions 0 to n - 1. Numbers i and i + D / 2 of a head are one
    complex number."""
    num_tokens, half = heads.shape[1], heads.shape[2] // 2
    rates = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(num_tokens, dtype=torch.float64)[:, None] * rates
    pairs = torch.complex(heads[..., :half].double(), heads[..., half:].double())
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], -1).float()


def allowed_pairs(mask: Mask, num_tokens: int) -> torch.Tensor:
    """Returns [num_tokens, num_tokens] bool: True for the keys that a query sees."""
    position = torch.arange(num_tokens)
    query, key = position[:, None], position[None, :]
    allowed = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    if mask.causal:
        allowed &= key <= query
    if mask.sliding_window is not None:
        allowed &= (query - key).abs() < mask.sliding_window
    if mask.logical_mask_mod is not None:
        zero = torch.zeros((), dtype=torch.int64)
        allowed &= mask.logical_mask_mod(zero, zero, query, key)
    return allowed
