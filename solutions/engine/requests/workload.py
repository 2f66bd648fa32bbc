"""Requests to try an engine with; their tokens depend on a seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solutions.pinned_h2d.ranges import Span

from ..model.config import ModelConfig
from .request import SamplingParams


@dataclass(frozen=True)
class Prompt:
    """The ids of a prompt, and the positions of its images."""

    tokens: list[int]
    images: list[Span]
    """The first and last position of each image."""


@dataclass(frozen=True)
class Asked:
    """A prompt and the sampling parameters of one request."""

    prompt: Prompt
    sampling: SamplingParams


def make_prompt(
    model: ModelConfig, num_tokens: int, images: Sequence[Span] = (), seed: int | list[int] = 0
) -> Prompt:
    """Returns a prompt of random ids: of text, and of patches where the images are."""
    random = np.random.default_rng(seed)
    tokens = random.integers(model.vocab_size, size=num_tokens)
    for start, end in images:
        patches = random.integers(model.image_vocab_size, size=end + 1 - start)
        tokens[start : end + 1] = model.vocab_size + patches
    return Prompt(tokens.tolist(), list(images))


def evenly_spread(num_tokens: int, num_images: int, image_tokens: int) -> list[Span]:
    """Returns the first and last position of each image: one image in the middle of each of
    `num_images` equal parts of the prompt. Raises ValueError if they don't fit."""
    room = num_tokens // max(num_images, 1)
    if image_tokens > room and num_images:
        raise ValueError(
            f"{num_images} images of {image_tokens} tokens don't fit into {num_tokens} tokens"
        )
    starts = [number * room + (room - image_tokens) // 2 for number in range(num_images)]
    return [(start, start + image_tokens - 1) for start in starts]


def alike_prompts(
    model: ModelConfig, count: int, num_tokens: int, image_tokens: int, seed: Sequence[int]
) -> list[Prompt]:
    """Returns prompts of one length, each with an image of `image_tokens` in its middle if that is
    not 0. No two begin with the same ids."""
    images = evenly_spread(num_tokens, int(image_tokens > 0), image_tokens)
    return [make_prompt(model, num_tokens, images, [*seed, number]) for number in range(count)]


def varied_requests(
    model: ModelConfig,
    count: int,
    prompt_tokens: tuple[int, int],
    new_tokens: tuple[int, int],
    image_tokens: int,
    seed: Sequence[int],
) -> list[Asked]:
    """Returns `count` requests whose lengths are random, within the bounds `prompt_tokens` and
    `new_tokens`, ends included. The lengths don't depend on the seed, so that only tokens differ.
    Every other prompt that is long enough has an image."""
    lengths = np.random.default_rng(count)
    asked = []
    for number in range(count):
        length = int(lengths.integers(*prompt_tokens, endpoint=True))
        max_tokens = int(lengths.integers(*new_tokens, endpoint=True))
        has_image = number % 2 == 1 and 0 < image_tokens <= length
        images = evenly_spread(length, int(has_image), image_tokens)
        prompt = make_prompt(model, length, images, [*seed, number])
        asked.append(Asked(prompt, SamplingParams(max_tokens=max_tokens)))
    return asked


def poisson_arrivals(count: int, rate: float) -> list[float]:
    """Returns the arrival times of `count` requests: seconds, ascending, on average `rate` requests
    a second. At an infinite rate all arrive at once."""
    return np.random.default_rng(0).exponential(1 / rate, count).cumsum().tolist()


def requests_behind(prefixes: Sequence[Prompt], count: int, new_tokens: int) -> list[Asked]:
    """Returns `count` requests that share prefixes: request i has prefix i % len(prefixes), then
    one token of its own. Everything but that token may be cached."""
    sampling = SamplingParams(max_tokens=new_tokens)
    asked = []
    for number in range(count):
        prefix = prefixes[number % len(prefixes)]
        asked.append(
            Asked(Prompt([*prefix.tokens, prefix.tokens[number]], prefix.images), sampling)
        )
    return asked
