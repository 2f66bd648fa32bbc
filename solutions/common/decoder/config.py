"""A decoder's shape, and the two numbers that its layers compute with."""

from __future__ import annotations

from dataclasses import dataclass

from .shape import DecoderShape


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(DecoderShape):
    """A decoder with rotary positions and RMS norms. ValueError for a shape that none has."""

    rope_theta: float = 500_000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_size < 2 or self.head_size % 2:
            raise ValueError(
                f"head size {self.head_size}: rotary positions turn pairs, make it even"
            )
