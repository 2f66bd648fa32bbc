"""The shape of a model's Gated DeltaNet layers, and how many sequences' states they hold."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class GDNConfig:
    """The sizes of a model's Gated DeltaNet layers. Every value head has its own state, and each
    key head serves the same number of value heads."""

    num_layers: int = 24
    hidden_size: int
    num_k_heads: int
    num_v_heads: int
    head_k_dim: int
    head_v_dim: int
    conv_width: int = 4
    num_slots: int = 64
    """Number of states that each layer holds: one for each sequence, and one more for each drafted
    token."""
    norm_eps: float = 1e-6
    dtype: torch.dtype = torch.bfloat16
    """The dtype of everything but the states of the delta rule and its gates, which are float32."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_v_heads % self.num_k_heads:
            raise ValueError(
                f"{self.num_v_heads} value heads for {self.num_k_heads} key heads: it must be a "
                "multiple"
            )

    @classmethod
    def small(cls) -> GDNConfig:
        """Returns the sizes of a model that takes seconds on sim; on a GPU the host is its
        bottleneck."""
        return cls(
            hidden_size=32,
            num_k_heads=1,
            num_v_heads=2,
            head_k_dim=16,
            head_v_dim=16,
            num_slots=16,
        )

    @classmethod
    def qwen3_next_like(cls) -> GDNConfig:
        """Returns the sizes of a model whose layers have the shape of Qwen3-Next's, for a GPU with
        16 GB or more."""
        return cls(
            hidden_size=2048,
            num_k_heads=16,
            num_v_heads=32,
            head_k_dim=128,
            head_v_dim=128,
        )

    @property
    def key_size(self) -> int:
        """Number of channels of the keys, or of the queries, of all heads."""
        return self.num_k_heads * self.head_k_dim

    @property
    def value_size(self) -> int:
        """Number of channels of the values of all heads."""
        return self.num_v_heads * self.head_v_dim

    @property
    def conv_dim(self) -> int:
        """Number of channels of the short convolution: those of queries, keys and values."""
        return 2 * self.key_size + self.value_size
