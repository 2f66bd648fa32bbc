"""What a step runs: the model's shape, and the requests that it serves."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """At all times `num_requests` are being served; in each step `arrivals` of them end and as
    many new ones arrive, with a prompt of `prompt_tokens`. The others run one token."""

    num_requests: int
    arrivals: int = 1
    prompt_tokens: int
    max_len: int
    """Tokens of a request that the tables have room for, at least."""
    padded_to: int
    """The tokens of a step are padded to a multiple of this, so that their number varies little."""
    vocab_size: int
    hidden_size: int
    num_layers: int
    conv_width: int = 4
    asked_ids: int = 4
    """Token ids whose log-probability a request asks for."""
    bad_words: int = 2
    """Token sequences that a request must not say."""
    dtype: torch.dtype = torch.bfloat16
    seed: int = 0

    @classmethod
    def small(cls) -> StepConfig:
        """Eight requests and a vocabulary of 512, in a model that sim runs in a second."""
        return cls(
            num_requests=8,
            prompt_tokens=6,
            max_len=64,
            padded_to=8,
            vocab_size=512,
            hidden_size=32,
            num_layers=3,
        )

    @classmethod
    def serving(cls) -> StepConfig:
        """256 requests and a vocabulary of 128k, in a wide model, for a GPU with 32 GB or more."""
        return cls(
            num_requests=256,
            arrivals=4,
            prompt_tokens=64,
            max_len=1024,
            padded_to=64,
            vocab_size=128_256,
            hidden_size=8192,
            num_layers=8,
        )

    @property
    def num_mixing_layers(self) -> int:
        return (self.num_layers + 1) // 2
