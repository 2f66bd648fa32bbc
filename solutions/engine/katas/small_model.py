"""The small model that the capstone kata's engine runs, and the requests that a scheduler gives
that engine."""

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
