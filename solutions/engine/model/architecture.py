"""Options that a family of models adds to a plain decoder: Llama adds none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from solutions.common.decoder.layer import DecoderLayer, Hidden
from solutions.common.decoder.shape import DecoderConfig


class SecondHalf(Protocol):
    """The half of a layer after its mixing of tokens, such as an Mlp."""

    def forward(self, hidden: Hidden) -> Hidden: ...


MakesSecondHalf = Callable[[DecoderConfig, torch.device], SecondHalf]
"""A class such as Mlp, or an object that is equal for equal shapes, as configs are compared."""


@dataclass(frozen=True, kw_only=True)
class Rope:
    """Rotary position embeddings: how positions turn the heads of a layer."""

    frequencies: tuple[float, ...]
    """The angle in radians by which each pair, the numbers i and i + head_size / 2 of a head, turns
    from one position to the next. 0 leaves the pair as it is."""
    factor: float = 1.0
    """The factor of the cosines and sines of the pairs that turn, as in YaRN."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Differences to a plain decoder that are known from a checkpoint's config alone."""

    ropes: tuple[Rope, ...] = ()
    """Layer i uses ropes[i % len(ropes)]; without any, the config's rope_theta."""
    head_norms: bool = False
    """Queries and keys are normalised head by head, before they are rotated."""
    embedding_scale: float = 1.0
    """The factor of the embeddings of text."""
    token_types: int = 0
    """The number of token types, each with an embedding, of a pooling model; 0 is none."""
    tied: bool = False
    """True if the head is the embedding."""
    attention_layer: type[DecoderLayer[Any]] | None = None
    """The class of attention layers, derived from AttentionLayer; None is AttentionLayer."""
    mlp: MakesSecondHalf | None = None
    """Makes the second half of each layer; None is Mlp."""


PLAIN = Architecture()
