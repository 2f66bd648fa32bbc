"""Makes requests, and refuses those that an engine can't serve."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from solutions.common.host_integers import are_ints, is_integer
from solutions.common.shown import shown
from solutions.pinned_h2d.ranges import Span, check_span

from ..model.config import EngineConfig
from .chance import check_chance
from .request import Request, SamplingParams


def new_request(
    request_id: str,
    prompt: Sequence[int],
    images: Sequence[Span],
    sampling: SamplingParams,
    config: EngineConfig,
    image_names: Mapping[int, bytes] | None = None,
) -> Request:
    """Returns a request that this engine can serve. The request copies its arguments: a list that
    the caller changes later does not change it. `image_names` has a name for the contents at each
    image's first id, where the id alone does not identify them. Raises ValueError or TypeError,
    naming the request and the value, for what the engine can't serve."""
    prompt = _ids(request_id, "its prompt", prompt)
    spans = sorted((int(start), int(end)) for start, end in _checked_images(request_id, images))
    sampling = _owned(request_id, sampling)
    _check_prompt(request_id, prompt, spans, config)
    _check_sampling(request_id, sampling, config)
    _check_sizes(request_id, len(prompt), spans, sampling.max_tokens, config)
    names = image_names or {}
    named = [names.get(prompt[start], b"") for start, _ in spans]
    size, layout = config.limits.block_size, config.layout
    return Request(request_id, prompt, spans, sampling, size, named, layout)


def seeds_apart(sampling: SamplingParams, n: int) -> list[SamplingParams]:
    """Returns the same sampling parameters `n` times. A seed counts up, so that answers differ."""
    seed = sampling.seed if isinstance(sampling, SamplingParams) else None
    if seed is None or not is_integer(seed):
        return [sampling] * n
    return [replace(sampling, seed=seed + number) for number in range(n)]


def _owned(request_id: str, sampling: SamplingParams) -> SamplingParams:
    """Returns a copy of the sampling parameters with lists of its own, and with a random seed if it
    needs one and has none. Raises TypeError for other types."""
    if not isinstance(sampling, SamplingParams):
        raise TypeError(
            f"request {request_id!r}: its sampling is {shown(sampling)}: give SamplingParams"
        )
    wanted, words = sampling.logprobs, _listed(request_id, "bad_words", sampling.bad_words)
    seed = sampling.seed
    if seed is None and sampling.temperature:
        # Drawn once, so that a request that restarts gets the same answer again.
        seed = secrets.randbits(63)
    return replace(
        sampling,
        seed=seed,
        stop_tokens=_ids(request_id, "stop_tokens", sampling.stop_tokens),
        logprobs=None if wanted is None else _ids(request_id, "logprobs", wanted),
        bad_words=[_ids(request_id, "a bad word", word) for word in words],
    )


def _ids(request_id: str, what: str, values: object) -> list[int]:
    """Returns the values as a list, with integers of numpy converted to Python's. Other values stay
    as they are, for the checks to find. Raises TypeError for anything but a sequence or an
    array."""
    listed = _listed(request_id, what, values)
    if are_ints(listed):
        return listed
    return [int(value) if is_integer(value) else value for value in listed]


def _listed(request_id: str, what: str, values: object) -> list:
    """Returns the values as a list. Raises TypeError for anything but a sequence or an array: an
    iterator can be read only once, and a tensor may be on a device, where reading it waits."""
    if isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes):
        return list(values)
    raise TypeError(f"request {request_id!r}: {what} is {shown(values)}: give a list of ids")


def _checked_images(request_id: str, images: Sequence[Span]) -> list[Span]:
    if not isinstance(images, Sequence) or isinstance(images, str | bytes):
        raise TypeError(
            f"request {request_id!r}: images is {shown(images)}: give a list of (first, last)"
        )
    images = list(images)
    for span in images:
        try:
            check_span(0, span)
        except (TypeError, ValueError) as error:
            _, _, what = str(error).partition(": ")
            raise type(error)(f"request {request_id!r}: {what}") from None
    return images


def _check_prompt(
    request_id: str, prompt: Sequence[int], spans: Sequence[Span], config: EngineConfig
) -> None:
    if not len(prompt):
        raise ValueError(f"request {request_id!r} has an empty prompt: give it a token at least")
    vocab_size, num_ids = config.model.vocab_size, config.model.num_ids
    if not spans and are_ints(prompt) and 0 <= min(prompt) <= max(prompt) < vocab_size:
        # The ids of a valid text need no check one by one.
        return
    in_image = [False] * len(prompt)
    for start, end in spans:
        if end >= len(prompt):
            raise ValueError(
                f"request {request_id!r}: the image at {(start, end)} ends behind the prompt, "
                f"which has {len(prompt)} tokens"
            )
        if any(in_image[start : end + 1]):
            raise ValueError(
                f"request {request_id!r}: the image at {(start, end)} overlaps another"
            )
        in_image[start : end + 1] = [True] * (end + 1 - start)
    for position, (token, is_patch) in enumerate(zip(prompt, in_image, strict=True)):
        first, end, of_what = (
            (vocab_size, num_ids, "image") if is_patch else (0, vocab_size, "text")
        )
        if not is_integer(token) or not first <= token < end:
            raise ValueError(
                f"request {request_id!r} has id {token!r} at position {position}: {of_what} has "
                f"ids in [{first}, {end})"
            )


def _check_sampling(request_id: str, sampling: SamplingParams, config: EngineConfig) -> None:
    vocab_size = config.model.vocab_size
    if not is_integer(sampling.max_tokens) or sampling.max_tokens < 1:
        raise ValueError(
            f"request {request_id!r} asks for {sampling.max_tokens!r} tokens: ask for at least 1"
        )
    check_chance(request_id, sampling)
    if any(not len(word) for word in sampling.bad_words):
        raise ValueError(f"request {request_id!r} has an empty bad word: give it an id at least")
    ids = [*(sampling.logprobs or ()), *sampling.stop_tokens]
    ids += [id for word in sampling.bad_words for id in word]
    if sampling.stop_token is not None:
        ids.append(sampling.stop_token)
    for token in ids:
        if not is_integer(token) or not 0 <= token < vocab_size:
            raise ValueError(
                f"request {request_id!r} names token {token!r}: the vocabulary has 0 to "
                f"{vocab_size - 1}"
            )
    forbidden = {word[0] for word in sampling.bad_words if len(word) == 1}
    if len(forbidden) >= vocab_size:
        raise ValueError(f"request {request_id!r} forbids every token: leave one")


def _check_sizes(
    request_id: str, num_prompt: int, spans: Sequence[Span], max_tokens: int, config: EngineConfig
) -> None:
    limits, longest = config.limits, config.longest_request
    if num_prompt + max_tokens > longest:
        raise ValueError(
            f"request {request_id!r} has {num_prompt} tokens and asks for {max_tokens}: a request "
            f"has at most {longest}, so shorten the prompt or ask for less"
        )
    if len(spans) > config.max_images:
        raise ValueError(
            f"request {request_id!r} has {len(spans)} images: max_images is {config.max_images}"
        )
    for start, end in spans:
        if end + 1 - start > limits.max_num_batched_tokens:
            raise ValueError(
                f"request {request_id!r}: the image at {(start, end)} has {end + 1 - start} "
                "tokens, which one step has to compute, and a step has at most "
                f"{limits.max_num_batched_tokens}"
            )
