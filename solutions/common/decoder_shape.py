"""The shape of a decoder: what its weights and its KV cache are."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from solutions.common.floats import FLOATS

COUNTS = (
    "num_layers",
    "hidden_size",
    "intermediate_size",
    "num_heads",
    "num_kv_heads",
    "head_size",
    "vocab_size",
)


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """ValueError for a shape that no decoder has."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocab_size: int
    dtype: torch.dtype = torch.bfloat16
    """Of weights, activations and the KV cache."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts(self, COUNTS)
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.num_heads} heads for {self.num_kv_heads} KV heads: it must be a multiple"
            )
        if self.dtype not in FLOATS:
            raise ValueError(f"weights of {self.dtype}: use bfloat16, float16 or float32")

    @property
    def query_size(self) -> int:
        """Of all query heads."""
        return self.num_heads * self.head_size

    @property
    def qkv_size(self) -> int:
        """Of all query, key and value heads."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_size

    @property
    def weight_bytes(self) -> int:
        """Of what a decode step reads once where all layers have attention: all weights but the
        embedding, of which it reads a row a token."""
        layer = self.hidden_size * (self.qkv_size + self.query_size + 3 * self.intermediate_size)
        return (self.num_layers * layer + self.vocab_size * self.hidden_size) * self.dtype.itemsize


def check_counts(config: object, names: tuple[str, ...]) -> None:
    """ValueError, naming the first one, for a field that is not at least 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} {getattr(config, name)}: it must be at least 1")
