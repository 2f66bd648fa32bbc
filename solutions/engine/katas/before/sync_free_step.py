"""The step of a small engine with one fault of each chapter. Its tokens are right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch.nn.functional import rms_norm

from ..small_model import (
    BLOCK,
    MOST_BLOCKS,
    MOST_REQUESTS,
    SmallModel,
    StepRequest,
    attention,
    recurrence,
)


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


class Engine:
    """An engine that generates tokens with a model of L layers, for up to MOST_REQUESTS requests at
    a time.

    `cache` [L, blocks, 2 * BLOCK, D] float32 is on the device, and D = 2 * BLOCK. In an attention
    layer a block holds the keys of BLOCK tokens, then their values. In a recurrent layer it holds
    the state [D, D] after the last of its tokens. `host_cache` [host blocks, L, 2 * BLOCK, D] is
    pinned.
    """

    def __init__(self, model: SmallModel, cache: torch.Tensor, host_cache: torch.Tensor) -> None:
        self.model, self.cache, self.host_cache = model, cache, host_cache
        self.last_tokens = [0] * MOST_REQUESTS

    def load(self, request: StepRequest, host_blocks: Sequence[int]) -> None:
        """Copies blocks of the host's cache to the first blocks of `request`, after everything that
        is queued already. The next step with this request runs after the copies; other steps need
        not wait for them."""
        for host_block, block in zip(host_blocks, request.blocks, strict=False):
            for number in range(len(self.model.layers)):
                self.cache[number, block].copy_(self.host_cache[host_block, number])

    def step(self, requests: Sequence[StepRequest]) -> SampledTokens:
        """Queues a step; each request samples a token. Prompts and decodes may be mixed."""
        self.requests = requests
        sampled = SampledTokens(self._forward(self._inputs(requests)))
        for request, token in zip(requests, sampled.read(), strict=True):
            self.last_tokens[request.slot] = token
        return sampled

    def _inputs(self, requests: Sequence[StepRequest]) -> Inputs:
        lengths = [len(request.prompt) or 1 for request in requests]
        token_ids: list[int] = []
        positions: list[int] = []
        rows, block_table = [], []
        for row, (request, length) in enumerate(zip(requests, lengths, strict=True)):
            token_ids += request.prompt or [self.last_tokens[request.slot]]
            positions += range(request.num_computed, request.num_computed + length)
            rows += [row] * length
            block_table.append([*request.blocks, *[0] * (MOST_BLOCKS - len(request.blocks))])
        inputs = (token_ids, positions, rows, [0, *accumulate(lengths)], block_table)
        return Inputs(*(torch.tensor(values, device=self.cache.device) for values in inputs))

    def _forward(self, inputs: Inputs) -> torch.Tensor:
        """Returns [R] int64 on the device: the token that each request samples."""
        size = self.model.embedding.shape[1:]
        hidden = self.model.embedding[inputs.token_ids]
        for layer, cache in zip(self.model.layers, self.cache, strict=True):
            normed = rms_norm(hidden, size)
            if layer.gate is None:
                visible = self._visible(inputs)
                mixed = attention(layer, normed, visible, inputs, cache)
            else:
                chunks = self._chunks(inputs)
                mixed = recurrence(layer, normed, chunks, inputs, cache)
            hidden = hidden + rms_norm(mixed, size) @ layer.output
        last = rms_norm(hidden[inputs.starts[1:] - 1], size)
        return (last @ self.model.head).argmax(1)

    def _visible(self, inputs: Inputs) -> torch.Tensor:
        """Returns [T, keys] bool: True for the keys of its request that a token sees."""
        positions, device = inputs.positions, self.cache.device
        page = torch.arange(MOST_BLOCKS, device=device)
        pages = (page * BLOCK <= positions.max()).nonzero()
        keys = (pages * BLOCK + torch.arange(BLOCK, device=device)).flatten()
        visible = keys <= positions[:, None]
        for row, request in enumerate(self.requests):
            if request.images:
                first, last = torch.tensor(request.images, device=device).unbind(1)
                sees_image = (first <= positions[:, None]) & (positions[:, None] <= last)
                in_image = (first[:, None] <= keys) & (keys <= last[:, None])
                both = (sees_image[..., None] & in_image).any(1)
                visible |= both & (inputs.rows == row)[:, None]
        return visible

    def _chunks(self, inputs: Inputs) -> torch.Tensor:
        """Returns [NT, 2] int64 on the device: (request, chunk of its tokens), in order."""
        lengths = inputs.starts.diff().tolist()
        rows = [(row, i) for row, length in enumerate(lengths) for i in range(-(-length // BLOCK))]
        return torch.tensor(rows, device=self.cache.device)


class SampledTokens:
    """The tokens that a step samples."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens.tolist()

    def read(self) -> list[int]:
        """Returns one token for each request of the step. Waits for this step if it is not done
        yet."""
        return self.tokens
