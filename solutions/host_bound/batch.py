"""A step's requests on the host, and their metadata on the device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

BLOCK = 16
"""The tokens of a KV block."""


class StepRequests(NamedTuple):
    """The requests of a step. `lengths` [R] int32 are their new tokens and `cached` [R] int32 the
    tokens before them; `tables` [G, R, B] int32 has the blocks of each request in each KV group."""

    lengths: np.ndarray
    cached: np.ndarray
    tables: np.ndarray

    @property
    def num_tokens(self) -> int:
        return int(self.lengths.sum())

    @property
    def num_groups(self) -> int:
        return len(self.tables)


class Metadata(NamedTuple):
    """The metadata of one KV group, on the device: where each request begins, the position of each
    token, and the slot of the cache that each token is written to. All are int32."""

    starts: torch.Tensor
    """[R + 1]"""
    positions: torch.Tensor
    """[T]"""
    slots: torch.Tensor
    """[T]"""


def decode_batch(requests: int, groups: int, cached: int = 40, seed: int = 0) -> StepRequests:
    """Returns a batch in which each request has one new token after `cached` others."""
    return mixed_batch([1] * requests, groups, cached, seed)


def mixed_batch(lengths: list[int], groups: int, cached: int = 40, seed: int = 0) -> StepRequests:
    """Returns a batch with these new tokens, whose blocks lie anywhere in the cache but at
    its beginning."""
    random = np.random.default_rng(seed)
    requests = len(lengths)
    blocks = -(-(cached + max(lengths)) // BLOCK)
    tables = [
        1 + random.permutation(requests * blocks).reshape(requests, blocks) for _ in range(groups)
    ]
    return StepRequests(
        np.array(lengths, np.int32),
        np.full(requests, cached, np.int32),
        np.array(tables, np.int32),
    )
