"""The shape of a decoder: the sizes of its weights, and how far each layer sees."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from solutions.common.decoder.shape import DecoderConfig


@dataclass(frozen=True, kw_only=True)
class FlexConfig(DecoderConfig):
    """The sizes of a decoder, and how far its layers see. Raises ValueError for an impossible
    shape."""

    windows: tuple[int | None, ...] = (None,)
    """Window sizes in tokens: layer i sees windows[i % len(windows)] tokens, its own included; None
    is all tokens."""
    has_kernel_for_few: bool = False
    """True to compute the attention of steps of few tokens, such as decodes, in a kernel of our own
    (`attend`) that takes one launch. False leaves all steps to FlexAttention."""
    has_kernel_for_many: bool = False
    """True to compute the attention of all other steps, such as prefills, in a second kernel of our
    own (`attend_many`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.windows or any(window is not None and window < 1 for window in self.windows):
            raise ValueError(
                f"windows {self.windows}: give at least one, each None or at least 1 token"
            )

    @classmethod
    def tiny(cls) -> FlexConfig:
        """Returns the sizes of a model that takes a fraction of a second on sim, in float32 so that
        numbers can be compared."""
        return cls(
            num_layers=2,
            hidden_size=32,
            intermediate_size=64,
            num_heads=2,
            num_kv_heads=1,
            head_size=16,
            vocab_size=64,
            dtype=torch.float32,
        )

    @classmethod
    def small(cls) -> FlexConfig:
        """Returns the sizes of a model so small that on a GPU the host is the bottleneck of a
        decode step."""
        return cls(
            num_layers=12,
            hidden_size=768,
            intermediate_size=3072,
            num_heads=12,
            num_kv_heads=12,
            head_size=64,
            vocab_size=32_000,
        )

    @classmethod
    def llama_3_8b(cls) -> FlexConfig:
        """Returns the sizes of Llama-3-8B, with 16 GB of weights."""
        return cls(
            num_layers=32,
            hidden_size=4096,
            intermediate_size=14_336,
            num_heads=32,
            num_kv_heads=8,
            head_size=128,
            vocab_size=128_256,
        )

    def window_of_layer(self, index: int) -> int | None:
        """Returns how many tokens layer `index` sees, its own included, or None for all."""
        return self.windows[index % len(self.windows)]
