"""The configuration of a step: the model's shape, and the requests that it serves."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class StepConfig:
    """The sizes of a model and of its load. `num_requests` are always running. In each step
    `arrivals` of them end and as many arrive, with a prompt of up to `prompt_tokens`; all other
    requests run one token."""

    num_requests: int
    arrivals: int = 1
    prompt_tokens: int
    max_len: int
    """The most tokens of a request, its prompt included: the tables have as many columns."""
    padded_to: int
    """The multiple that a step's number of tokens is padded to, so that it varies little."""
    vocab_size: int
    hidden_size: int
    num_layers: int
    conv_width: int = 4
    asked_ids: int = 4
    """Number of token ids whose log-probabilities a request asks for."""
    bad_words: int = 2
    """Number of token sequences that a request must not generate."""
    dtype: torch.dtype = torch.bfloat16
    seed: int = 0

    @classmethod
    def small(cls) -> StepConfig:
        """Returns a load of eight requests and a vocabulary of 512, for a model that sim runs in a
        second."""
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
        """Returns a load of 256 requests and a vocabulary of 128k, for a wide model, on a GPU with
        32 GB or more."""
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
