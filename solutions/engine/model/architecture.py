"""What a family of models has beside a plain decoder: Llama has none of it, Gemma 3 the most."""

from __future__ import annotations

from dataclasses import dataclass

from solutions.common.decoder.shape import check_counts
from solutions.common.decoder.silu_and_mul import Activation


@dataclass(frozen=True, kw_only=True)
class Rope:
    """How positions turn the heads of a layer."""

    frequencies: tuple[float, ...]
    """By how much each pair, the numbers i and i + head_size / 2 of a head, turns a token, in
    radians. 0 leaves it as it is."""
    factor: float = 1.0
    """What cosines and sines of the pairs that turn are multiplied by, as YaRN does."""


@dataclass(frozen=True, kw_only=True)
class ExpertShape:
    """The experts in place of an MLP. ValueError for counts below 1, and for more experts of a
    token than there are."""

    num_experts: int
    experts_per_token: int
    expert_size: int
    """Rows of an expert's gates."""
    shared_size: int
    """Rows of the gates of the expert that all tokens have."""
    normalised: bool = True
    """Whether the weights of a token's experts sum to 1."""

    def __post_init__(self) -> None:
        names = ("num_experts", "experts_per_token", "expert_size", "shared_size")
        check_counts(self, names)
        if self.experts_per_token > self.num_experts:
            raise ValueError(
                f"experts_per_token {self.experts_per_token}: there are {self.num_experts} experts"
            )


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What differs from a plain decoder, and is known from a checkpoint's config alone."""

    ropes: tuple[Rope, ...] = ()
    """Layer i turns by ropes[i % len(ropes)]; without any by the config's rope_theta."""
    head_norms: bool = False
    """Queries and keys are normalised head by head, before they are turned (Qwen3, Gemma 3)."""
    gated_attention: bool = False
    """What attention gives is multiplied by the sigmoid of a gate (Qwen3-Next)."""
    sandwich_norms: bool = False
    """What attention and MLP give is normalised before it is added (Gemma 3)."""
    activation: Activation = "silu"
    embedding_scale: float = 1.0
    """What the embeddings of text are multiplied by (Gemma 3)."""
    experts: ExpertShape | None = None
    """In place of each layer's MLP (Qwen3-Next)."""
    token_types: int = 0
    """Kinds of text that a pooling model tells apart by an embedding of their own; 0 is none."""
    tied: bool = False
    """Whether the head is the embedding."""


PLAIN = Architecture()
