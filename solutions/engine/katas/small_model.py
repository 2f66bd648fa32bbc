"""The model that the capstone kata's engine computes, and what a scheduler asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch.nn.functional import logsigmoid, pad

BLOCK = 8  # tokens of a block of the cache, and of a chunk
MOST_REQUESTS = 4  # in one step
MOST_BLOCKS = 6  # of one request
MOST_IMAGES = 2  # in one prompt


class Layer(NamedTuple):
    projection: torch.Tensor
    """[D, 3 * D]: to query, key and value."""
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


class StepRequest(NamedTuple):
    """What the scheduler says of a request in one step."""

    slot: int
    """Its place among those that are running, below MOST_REQUESTS."""
    blocks: Sequence[int]
    """Of the cache, for its tokens in their order, those of this step too. Never block 0, which
    is nobody's."""
    num_computed: int = 0
    """Tokens that the cache knows; a multiple of BLOCK if there is a prompt to compute."""
    prompt: Sequence[int] = ()
    """What is left of its prompt. None left: this step computes the token that it sampled last."""
    images: Sequence[tuple[int, int]] = ()
    """First and last position of each, at most 2: its tokens see each other both ways."""


class SmallModelInputs(Protocol):
    """What a layer reads of the inputs that an engine makes of a step, for its T tokens and R
    requests: int64 on the device."""

    @property
    def positions(self) -> torch.Tensor:
        """[T]: in its request."""

    @property
    def rows(self) -> torch.Tensor:
        """[T]: which of the step's requests it is of."""

    @property
    def starts(self) -> torch.Tensor:
        """[R + 1]: where each one's tokens start, then T."""

    @property
    def block_table(self) -> torch.Tensor:
        """[R, MOST_BLOCKS], 0 behind a request's blocks."""


def attention(
    layer: Layer,
    hidden: torch.Tensor,
    visible: torch.Tensor,
    inputs: SmallModelInputs,
    cache: torch.Tensor,
) -> torch.Tensor:
    """[T, D]. `hidden` [T, D]; `visible` [T, keys]; `cache` [blocks, 2 * BLOCK, D]: keys and values
    of the step's tokens are written there, and all of its requests read."""
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
    """[T, D]: query @ state of each token, state = exp(decay) * state + outer(key, value).

    `hidden` [T, D]; `chunks` [NT, 2]: (request, chunk of its tokens), in order; `cache` [blocks, D,
    D]: the state that a request's last step left is read there, and those behind chunks written.
    """
    assert layer.gate is not None, "a recurrent layer has a gate"
    request, chunk = chunks.unbind(1)
    start, end = inputs.starts[request], inputs.starts[request + 1]
    token = (start + chunk * BLOCK)[:, None] + torch.arange(BLOCK, device=chunks.device)
    # Behind the end of a chunk is the last row, which is added here: zeros, that change nothing.
    token = torch.where(token < end[:, None], token, len(hidden))
    query, key, value = pad(hidden @ layer.projection, (0, 0, 0, 1))[token].chunk(3, 2)
    decay = pad(logsigmoid(hidden @ layer.gate) / BLOCK, (0, 1))[token].cumsum(1)
    # What each chunk adds to the state, and how much of that is left when a later one begins.
    total = decay[:, -1]
    added = (key * (total[:, None] - decay).exp()[..., None]).mT @ value
    before = total.cumsum(0) - total
    is_later = (request[:, None] == request) & (chunk[:, None] > chunk)
    left = (before[:, None] - before - total).masked_fill(~is_later, float("-inf")).exp()
    # And how much of the state before the first one, if there was any.
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
