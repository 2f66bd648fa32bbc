"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

BLOCK = 8  # tokens of a block of the cache, and of a chunk
MOST_BLOCKS = 6  # of one request
MOST_REQUESTS = 4  # in one step


class Inputs(NamedTuple):
    """The inputs of the layers in a step, for its T tokens and R requests: int64 on the device."""

    token_ids: torch.Tensor
    """[T]"""
    positions: torch.Tensor
    """[T]: each token's position in its request."""
    rows: torch.Tensor
    """[T]: the index of each token's request in the step."""
    starts: torch.Tensor
    """[R + 1]: where each request's tokens start, then T."""
    block_table: torch.Tensor
    """[R, MOST_BLOCKS]: the cache blocks of each request, then 0."""


class Layer(NamedTuple):
    projection: torch.Tensor
    """[D, 3 * D]: projects to query, key and value."""
    output: torch.Tensor
    """[D, D]"""
    gate: torch.Tensor | None = None
    """[D]: how much of its state a recurrent layer keeps. None for a layer with attention."""


class SmallModel(NamedTuple):
    embedding: torch.Tensor
    """[V, D]"""
    layers: Sequence[Layer]
    head: torch.Tensor
    """[D, V]"""


class SmallModelInputs(Protocol):
    """The inputs of a step that a layer reads, for its T tokens and R requests: int64 on the
    device."""

    @property
    def positions(self) -> torch.Tensor:
        """[T]: each token's position in its request."""

    @property
    def rows(self) -> torch.Tensor:
        """[T]: the index of each token's request in the step."""

    @property
    def starts(self) -> torch.Tensor:
        """[R + 1]: where each request's tokens start, then T."""

    @property
    def block_table(self) -> torch.Tensor:
        """[R, MOST_BLOCKS]: the cache blocks of each request, then 0."""


class StepRequest(NamedTuple):
    """One request of a step, as the scheduler describes it."""

    slot: int
    """The request's place among the running requests, below MOST_REQUESTS."""
    blocks: Sequence[int]
    """The cache blocks of the request's tokens, in order, including those of this step. Block 0 is
    never among them, since it belongs to no request."""
    num_computed: int = 0
    """The number of tokens that are in the cache; a multiple of BLOCK if there is a prompt to
    compute."""
    prompt: Sequence[int] = ()
    """The rest of the request's prompt. If it is empty, this step computes the token that the
    request sampled last."""
    images: Sequence[tuple[int, int]] = ()
    """The first and last position of each image, at most 2 images (MOST_IMAGES). The tokens of
    an image see each other both ways."""
