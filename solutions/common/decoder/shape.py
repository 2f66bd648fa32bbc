"""The shape of a decoder: the sizes of its weights and of its KV cache, with their checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from solutions.common.host_integers import is_integer

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
"""The dtypes that layers compute in."""
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
    """The shape of a decoder with grouped-query attention and a gated MLP. Raises ValueError for
    counts below 1, for a number of heads that is no multiple of the KV heads, and for a dtype that
    layers don't compute in."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    vocab_size: int
    dtype: torch.dtype = torch.bfloat16
    """The dtype of weights, activations and the KV cache."""
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
        """The size of one token's query, all heads together."""
        return self.num_heads * self.head_size

    @property
    def qkv_size(self) -> int:
        """The size of one token's query, key and value, all heads together."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_size

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that a decode step reads if every layer has attention: all weights but
        the embedding, of which it reads one row for each token."""
        layer = self.hidden_size * (self.qkv_size + self.query_size + 3 * self.intermediate_size)
        return (self.num_layers * layer + self.vocab_size * self.hidden_size) * self.dtype.itemsize


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(DecoderShape):
    """The config of a decoder with rotary positions and RMS norms. Raises ValueError for an invalid
    shape or an odd head size."""

    rope_theta: float = 500_000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_size < 2 or self.head_size % 2:
            raise ValueError(
                f"head size {self.head_size}: rotary positions turn pairs, make it even"
            )


def check_counts(config: object, names: Iterable[str]) -> None:
    """Raises ValueError for the first of the fields `names` of `config` that is no integer, or
    below 1."""
    for name in names:
        value = getattr(config, name)
        if not is_integer(value):
            raise ValueError(f"{name} {value!r}: it must be an integer")
        if value < 1:
            raise ValueError(f"{name} {value}: it must be at least 1")
