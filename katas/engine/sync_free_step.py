"""A step that waits for nothing (chapter 06, hard, 120 minutes).

The engine below generates the right tokens, for prompts with images and for requests whose prefix
lies in CPU memory. But it has a fault of each chapter from 01 to 05, and the host waits for the
device again and again.

Make it an engine that waits for nothing. The tests go by chapter: run them with `-x`, which stops
at the first failing test. Repair what that test reports, and run them again. In the end there is

    in each step          1 upload of all its inputs, from pinned memory,
                          1 download of its tokens, to pinned memory, for which only `read` waits
    in a step of decodes  1 launch of a graph besides, and no kernel by itself
    in a load             1 batch of copies, beside the steps of other requests

`attention` and `recurrence` can stay as they are: only their arguments have to come from elsewhere.
`Inputs` may have more fields, and is best made without reading anything from the device. Streams,
events, graphs, pinned memory and `copy_batch` are those of `debubble.accelerator.current()`;
`copy_batch(sources, targets, sizes)` takes NumPy arrays of int64. Rows that only pad a graph write
too: let them write the same values to one place, or each to a place of its own. The order of two
different writes is not defined, and sim reports them as a race.

You need to know the katas before it: this one is all of them together.

Edit this file, then run

    .venv/bin/pytest katas/engine/test_sync_free_step.py

Stuck?         .venv/bin/debubble hint sync_free_step
Start afresh?  .venv/bin/debubble reset sync_free_step
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch.nn.functional import logsigmoid, pad, rms_norm

from katas.engine.given import (
    BLOCK,
    MOST_BLOCKS,
    MOST_REQUESTS,
    Inputs,
    Layer,
    SmallModel,
    SmallModelInputs,
    StepRequest,
)


# Yours to edit, from here on.
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


def attention(
    layer: Layer,
    hidden: torch.Tensor,
    visible: torch.Tensor,
    inputs: SmallModelInputs,
    cache: torch.Tensor,
) -> torch.Tensor:
    """Returns [T, D]. `hidden` is [T, D] and `visible` [T, keys]. Writes the keys and values of the
    step's tokens to `cache` [blocks, 2 * BLOCK, D], and reads those of all its requests."""
    query, key, value = (hidden @ layer.projection).chunk(3, 1)
    pages = inputs.block_table[inputs.rows]
    block = pages.gather(1, inputs.positions[:, None] // BLOCK)[:, 0]
    place = block * 2 * BLOCK + inputs.positions % BLOCK
    cache.flatten(0, 1).index_copy_(0, place, key)
    cache.flatten(0, 1).index_copy_(0, place + BLOCK, value)
    keys, values = cache[pages[:, : visible.shape[1] // BLOCK]].chunk(2, 2)
    scores = (keys.flatten(1, 2) @ query[..., None])[..., 0] / query.shape[1] ** 0.5
    weights = scores.masked_fill(~visible, float("-inf")).softmax(1)
    return (weights[:, None] @ values.flatten(1, 2))[:, 0]


def recurrence(
    layer: Layer,
    hidden: torch.Tensor,
    chunks: torch.Tensor,
    inputs: SmallModelInputs,
    cache: torch.Tensor,
) -> torch.Tensor:
    """Returns [T, D]: query @ state of each token, where state = exp(decay) * state + outer(key,
    value).

    `hidden` is [T, D]. `chunks` [NT, 2] has (request, chunk of its tokens), in order. Reads from
    `cache` [blocks, D, D] the state that each request's last step left, and writes the state after
    each chunk.
    """
    assert layer.gate is not None, "a recurrent layer has a gate"
    request, chunk = chunks.unbind(1)
    start, end = inputs.starts[request], inputs.starts[request + 1]
    token = (start + chunk * BLOCK)[:, None] + torch.arange(BLOCK, device=chunks.device)
    # Places after the end of a chunk read the last row, which is added here. It is zero, and
    # changes nothing.
    token = torch.where(token < end[:, None], token, len(hidden))
    query, key, value = pad(hidden @ layer.projection, (0, 0, 0, 1))[token].chunk(3, 2)
    decay = pad(logsigmoid(hidden @ layer.gate) / BLOCK, (0, 1))[token].cumsum(1)
    # The share of each chunk in the state, and how much of it is left when a later chunk
    # begins.
    total = decay[:, -1]
    added = (key * (total[:, None] - decay).exp()[..., None]).mT @ value
    before = total.cumsum(0) - total
    is_later = (request[:, None] == request) & (chunk[:, None] > chunk)
    left = (before[:, None] - before - total).masked_fill(~is_later, float("-inf")).exp()
    # How much is left of the state before the request's first chunk, if there was any.
    computed = inputs.positions[start]
    last_block = inputs.block_table[request, (computed - 1).clamp(min=0) // BLOCK]
    first_chunk = torch.arange(len(chunks), device=chunks.device) - chunk
    still_left = (before - before[first_chunk]).exp() * (computed > 0)
    state = cache[last_block] * still_left[:, None, None] + (left @ added.flatten(1)).view_as(added)
    block = inputs.block_table[request, inputs.positions[token[:, 0]] // BLOCK]
    cache[block] = state * total.exp()[:, None, None] + added
    inside = (query @ key.mT) * (decay[:, :, None] - decay[:, None]).exp().tril()
    result = inside @ value + (query * decay.exp()[..., None]) @ state
    mixed = hidden.new_empty(len(hidden) + 1, hidden.shape[1])
    return mixed.index_copy_(0, token.flatten(), result.flatten(0, 1))[:-1]
