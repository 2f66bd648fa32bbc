"""Requests to try an engine with: their tokens follow from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solutions.pinned_h2d.ranges import Span

from .config import ModelConfig
from .request import SamplingParams


@dataclass(frozen=True)
class Prompt:
    tokens: list[int]
    images: list[Span]
    """First and last position of each."""


@dataclass(frozen=True)
class Asked:
    """What one request asks for."""

    prompt: Prompt
    sampling: SamplingParams


def make_prompt(
    model: ModelConfig, num_tokens: int, images: Sequence[Span] = (), seed: int | list[int] = 0
) -> Prompt:
    """Of text, but for the images."""
    random = np.random.default_rng(seed)
    tokens = random.integers(model.vocab_size, size=num_tokens)
    for start, end in images:
        patches = random.integers(model.image_vocab_size, size=end + 1 - start)
        tokens[start : end + 1] = model.vocab_size + patches
    return Prompt(tokens.tolist(), list(images))


def evenly_spread(num_tokens: int, num_images: int, image_tokens: int) -> list[Span]:
    """ValueError if they don't fit."""
    room = num_tokens // max(num_images, 1)
    if image_tokens > room and num_images:
        raise ValueError(
            f"{num_images} images of {image_tokens} tokens don't fit into {num_tokens} tokens"
        )
    starts = [number * room + (room - image_tokens) // 2 for number in range(num_images)]
    return [(start, start + image_tokens - 1) for start in starts]


def mixed_requests(model: ModelConfig, count: int = 24, seed: int = 0) -> list[Asked]:
    """Short and long ones, with and without images; every third begins as one before it does."""
    random = np.random.default_rng(seed)
    asked: list[Asked] = []
    for number in range(count):
        images = [(2, 2 + int(random.integers(3, 16)))] if number % 4 == 1 else []
        length = int(random.integers(1, 20)) + 20 * bool(images)
        prompt = make_prompt(model, length, images, [seed, number])
        if number % 3 == 2 and not images:
            other = asked[int(random.integers(number))].prompt
            prompt = Prompt(other.tokens + prompt.tokens[:9], other.images)
        asked.append(Asked(prompt, SamplingParams(max_tokens=int(random.integers(1, 5)))))
    return asked
