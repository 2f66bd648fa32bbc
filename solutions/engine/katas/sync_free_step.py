"""The step of a small engine, of prompts and of decodes, in which the host waits for nothing.

It is no part of the engine, whose step takes a dozen files: an exercise has to fit into one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch.nn.functional import rms_norm

from debubble.accelerator import Event, current
from solutions.common.read_back import ReadBack

from .small_model import (
    BLOCK,
    MOST_BLOCKS,
    MOST_IMAGES,
    MOST_REQUESTS,
    SmallModel,
    StepRequest,
    attention,
    recurrence,
)

PADDING = StepRequest(slot=MOST_REQUESTS, blocks=(), prompt=(0,))  # no request: writes to block 0
Value = TypeVar("Value")


class Inputs(NamedTuple):
    """The inputs of the layers in a step, for its T tokens and R requests: int64 on the device."""

    token_ids: torch.Tensor
    """[T]: the token ids; -1 for the token that the request sampled last."""
    positions: torch.Tensor
    """[T]: each token's position in its request."""
    rows: torch.Tensor
    """[T]: the index of each token's request in the step."""
    starts: torch.Tensor
    """[R + 1]: where each request's tokens start, then T."""
    block_table: torch.Tensor
    """[R, MOST_BLOCKS]: the cache blocks of each request, then 0."""
    slots: torch.Tensor
    """[R]: each request's place among the running requests."""
    images: torch.Tensor
    """[R, MOST_IMAGES, 2]: the first and last position of each image."""
    chunks: torch.Tensor
    """[NT, 2]: (request, chunk of its tokens), in order."""


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
        self.last_tokens = torch.zeros(MOST_REQUESTS + 1, dtype=torch.int64, device=cache.device)
        self.loading = current().stream()
        self.loads: dict[int, Event] = {}
        self._capture_decode()

    def load(self, request: StepRequest, host_blocks: Sequence[int]) -> None:
        """Copies blocks of the host's cache to the first blocks of `request`, after everything that
        is queued already. The next step with this request runs after the copies; other steps need
        not wait for them."""
        pieces = [
            (source.data_ptr(), target.data_ptr(), source.nbytes)
            for host_block, block in zip(host_blocks, request.blocks, strict=False)
            for source, target in zip(
                self.host_cache[host_block], self.cache[:, block], strict=True
            )
        ]
        self.loading.wait_stream(current().current_stream())
        with self.loading:
            copy_pieces(pieces)
        self.loads[request.slot] = self.loading.record_event()

    def step(self, requests: Sequence[StepRequest]) -> SampledTokens:
        """Queues a step; each request samples a token. Prompts and decodes may be mixed."""
        for request in requests:
            if request.slot in self.loads:
                current().current_stream().wait_event(self.loads.pop(request.slot))
        if any(request.prompt for request in requests):
            numbers, shapes = packed_inputs(requests)
            numbers = numbers.to(self.cache.device, non_blocking=True)
            sampled = self._forward(unpacked(numbers, shapes))
        else:
            numbers, _ = packed_inputs(padded(requests, MOST_REQUESTS, PADDING))
            self.decode_numbers.copy_(numbers, non_blocking=True)
            self.decode.replay()
            sampled = self.decode_sampled
        return SampledTokens(sampled[: len(requests)])

    def _capture_decode(self) -> None:
        """Captures a decode step for MOST_REQUESTS requests. A step writes its inputs to the memory
        that the graph reads."""
        numbers, shapes = packed_inputs(padded([], MOST_REQUESTS, PADDING))
        self.decode_numbers = numbers.to(self.cache.device)
        inputs = unpacked(self.decode_numbers, shapes)
        self._forward(inputs)
        self.decode = current().graph()
        with self.decode.capture():
            self.decode_sampled = self._forward(inputs)

    def _forward(self, inputs: Inputs) -> torch.Tensor:
        """Returns [R] int64 on the device: the token that each request samples."""
        size = self.model.embedding.shape[1:]
        sampled_last = self.last_tokens[inputs.slots][inputs.rows]
        token_ids = torch.where(inputs.token_ids < 0, sampled_last, inputs.token_ids)
        hidden = self.model.embedding[token_ids]
        visible = self._visible(inputs)
        for layer, cache in zip(self.model.layers, self.cache, strict=True):
            normed = rms_norm(hidden, size)
            if layer.gate is None:
                mixed = attention(layer, normed, visible, inputs, cache)
            else:
                mixed = recurrence(layer, normed, inputs.chunks, inputs, cache)
            hidden = hidden + rms_norm(mixed, size) @ layer.output
        last = rms_norm(hidden[inputs.starts[1:] - 1], size)
        sampled = (last @ self.model.head).argmax(1)
        self.last_tokens[inputs.slots] = sampled
        return sampled

    def _visible(self, inputs: Inputs) -> torch.Tensor:
        """Returns [T, keys] bool: True for the keys of its request that a token sees."""
        position = inputs.positions[:, None]
        keys = torch.arange(MOST_BLOCKS * BLOCK, device=position.device)
        first, last = inputs.images[inputs.rows].unbind(2)
        sees_image = (first <= position) & (position <= last)
        in_image = (first[..., None] <= keys) & (keys <= last[..., None])
        return (keys <= position) | (sees_image[..., None] & in_image).any(1)


class SampledTokens:
    """The tokens that a step samples."""

    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = ReadBack(tokens)

    def read(self) -> list[int]:
        """Returns one token for each request of the step. Waits for this step if it is not done
        yet."""
        return self.tokens.read().tolist()


def packed_inputs(requests: Sequence[StepRequest]) -> tuple[torch.Tensor, list[torch.Size]]:
    """Returns all inputs of a step in one pinned int64 tensor, one after the other, and the shape
    of each. The memory is new in each step, since a copy may still read the memory of the last
    one."""
    token_ids: list[int] = []
    positions: list[int] = []
    rows, chunks, lengths = [], [], []
    for row, request in enumerate(requests):
        token_ids += request.prompt or [-1]
        length = len(request.prompt) or 1
        positions += range(request.num_computed, request.num_computed + length)
        rows += [row] * length
        chunks += [(row, chunk) for chunk in range(-(-length // BLOCK))]
        lengths.append(length)
    block_table = [padded(request.blocks, MOST_BLOCKS, 0) for request in requests]
    slots = [request.slot for request in requests]
    images = [padded(request.images, MOST_IMAGES, (0, 0)) for request in requests]
    starts = [0, *accumulate(lengths)]
    inputs = (token_ids, positions, rows, starts, block_table, slots, images, chunks)
    tensors = [torch.tensor(values) for values in inputs]
    numbers = torch.cat([tensor.flatten() for tensor in tensors])
    numbers = numbers.pin_memory() if current().pin_memory else numbers
    return numbers, [tensor.shape for tensor in tensors]


def unpacked(numbers: torch.Tensor, shapes: Sequence[torch.Size]) -> Inputs:
    """Returns the inputs as views of `numbers`: both arguments come from `packed_inputs`."""
    parts = numbers.split([shape.numel() for shape in shapes])
    return Inputs(*(part.view(shape) for part, shape in zip(parts, shapes, strict=True)))


def padded(values: Sequence[Value], length: int, padding: Value) -> list[Value]:
    return [*values, *[padding] * (length - len(values))]


def copy_pieces(pieces: Sequence[tuple[int, int, int]]) -> None:
    """Queues copies, each given as (source address, target address, bytes), in one call where the
    driver has it."""
    if current().has_copy_batch:
        current().copy_batch(*np.array(pieces, dtype=np.int64).T.copy())
    else:
        for piece in pieces:
            current().copy_bytes(*piece)
