"""Options that a family of models adds to a plain decoder: Llama adds none, Gemma 3 the most."""

from __future__ import annotations

from dataclasses import dataclass

from solutions.common.decoder.shape import check_counts
from solutions.common.decoder.silu_and_mul import Activation


@dataclass(frozen=True, kw_only=True)
class Rope:
    """Rotary position embeddings: how positions turn the heads of a layer."""

    frequencies: tuple[float, ...]
    """The angle in radians by which each pair, the numbers i and i + head_size / 2 of a head, turns
    from one position to the next. 0 leaves the pair as it is."""
    factor: float = 1.0
    """The factor of the cosines and sines of the pairs that turn, as in YaRN."""


@dataclass(frozen=True, kw_only=True)
class ExpertShape:
    """The shape of the experts that replace an MLP. Raises ValueError for counts below 1, and for
    more experts of a token than there are."""

    num_experts: int
    experts_per_token: int
    expert_size: int
    """The intermediate size of each expert: rows of its gates, and of its up projection."""
    shared_size: int
    """The intermediate size of the shared expert, which all tokens use."""
    normalised: bool = True
    """True if the weights of a token's experts are scaled so that they sum to 1."""

    def __post_init__(self) -> None:
        names = ("num_experts", "experts_per_token", "expert_size", "shared_size")
        check_counts(self, names)
        if self.experts_per_token > self.num_experts:
            raise ValueError(
                f"experts_per_token {self.experts_per_token}: there are {self.num_experts} experts"
            )


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Differences to a plain decoder that are known from a checkpoint's config alone."""

    ropes: tuple[Rope, ...] = ()
    """Layer i uses ropes[i % len(ropes)]; without any, the config's rope_theta."""
    head_norms: bool = False
    """Queries and keys are normalised head by head, before they are rotated (Qwen3, Qwen3-Next,
    Gemma 3)."""
    gated_attention: bool = False
    """The output of attention is multiplied by the sigmoid of a gate (Qwen3-Next)."""
    sandwich_norms: bool = False
    """The outputs of attention and MLP are normalised before they are added (Gemma 3)."""
    activation: Activation = "silu"
    embedding_scale: float = 1.0
    """The factor of the embeddings of text (Gemma 3)."""
    experts: ExpertShape | None = None
    """The experts that replace each layer's MLP (Qwen3-Next)."""
    token_types: int = 0
    """The number of token types, each with an embedding, of a pooling model; 0 is none."""
    tied: bool = False
    """True if the head is the embedding."""


PLAIN = Architecture()
