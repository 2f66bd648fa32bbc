"""The bytes that a decode step of a checkpoint reads, and the time that this takes at least."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..checkpoints.random_folder import EMBEDDING, tensors_of
from .contenders import Load, Served

PLAIN = ("llama", "qwen3")
"""Model types whose layers all read the keys and values of all tokens."""


@dataclass(frozen=True)
class StepBytes:
    """The bytes that a decode step reads, as a mean over the steps of a load."""

    weights: int
    keys_and_values: int
    nominal_bytes_per_s: float | None
    """Nominal rate of the device's memory; None if it is not known."""

    @property
    def least_ms(self) -> float | None:
        """Milliseconds in which the memory reads these bytes at its nominal rate."""
        if self.nominal_bytes_per_s is None:
            return None
        return (self.weights + self.keys_and_values) / self.nominal_bytes_per_s * 1e3


def step_bytes(config: dict, load: Load, nominal_bytes_per_s: float | None) -> StepBytes | None:
    """Returns the bytes of a decode step of a checkpoint with this `config`, or None if its
    architecture is none of PLAIN."""
    if config["model_type"] not in PLAIN:
        return None
    size = getattr(torch, config["dtype"]).itemsize
    # A head of its own is read whole, and of the embedding one row for each token.
    skipped = () if config["tie_word_embeddings"] else (EMBEDDING,)
    numbers = sum(math.prod(shape) for name, shape in tensors_of(config) if name not in skipped)
    of_token = 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
    tokens = load.batch * (load.prompt_tokens + load.new_tokens // 2)
    return StepBytes(numbers * size, tokens * of_token * size, nominal_bytes_per_s)


def step_ms(served: Served, load: Load) -> float:
    """Returns the milliseconds of a decode step of the whole batch."""
    return load.batch / served.decode_tokens_per_s * 1e3
