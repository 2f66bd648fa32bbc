"""A request: what is asked for, how far it is, and what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from solutions.pinned_h2d.ranges import Span, check_span, is_integer

from ..model.config import EngineConfig
from .block_hashes import block_hashes


class Status(Enum):
    WAITING = "waiting"
    """Holds nothing."""
    LOADING = "loading"
    """Part of its prefix is on its way from host memory."""
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """Greedy: the most likely token that is allowed."""

    max_tokens: int = 16
    stop_token: int | None = None
    """The last token of an answer, if it is sampled."""
    logprobs: Sequence[int] | None = None
    """Ids whose log-probability is wanted with each token, beside that of the token itself."""
    bad_words: Sequence[Sequence[int]] = ()
    """Sequences of ids that an answer must not hold."""

    @property
    def looks_back(self) -> bool:
        """Whether the host must know a token before it can prepare the next one."""
        return any(len(word) > 1 for word in self.bad_words)


@dataclass(eq=False)
class Request:
    request_id: str
    prompt: list[int]
    spans: list[Span]
    """First and last position of each image, in order."""
    sampling: SamplingParams
    block_size: int
    status: Status = Status.WAITING
    generated: list[int] = field(default_factory=list)
    """Tokens that the host knows."""
    num_sampled: int = 0
    """With those that are still on their way to the host."""
    num_computed: int = 0
    """Tokens whose keys, values and states are there, or will be when the queue gets there."""
    blocks: list[int] = field(default_factory=list)
    slot: int | None = None
    """Its row among what the device keeps of each running request."""
    num_named: int = 0
    """Blocks that others can find."""
    hashes: list[bytes] = field(default_factory=list)
    """Of the full blocks of the tokens that the host knows."""
    num_cached: int = 0
    """Tokens that were found and not computed, when it last began."""
    logprobs: list[dict[int, float]] = field(default_factory=list)
    finish_reason: str | None = None
    notes: list[str] = field(default_factory=list)
    """What went wrong and was made good."""

    def __post_init__(self) -> None:
        self.update_hashes()

    @property
    def tokens(self) -> list[int]:
        """That the host knows."""
        return self.prompt + self.generated

    @property
    def num_tokens(self) -> int:
        return len(self.prompt) + self.num_sampled

    @property
    def in_flight(self) -> int:
        """Sampled tokens that the host doesn't know yet."""
        return self.num_sampled - len(self.generated)

    @property
    def must_wait(self) -> bool:
        """True while nothing of it can be computed: all of its tokens are sampled, or what it must
        not say next depends on one that the host doesn't know yet."""
        is_done = self.finish_reason is not None or self.num_sampled >= self.sampling.max_tokens
        return is_done or (self.sampling.looks_back and self.in_flight > 0)

    def take(self, token: int, logprobs: dict[int, float] | None) -> str | None:
        """Adds a sampled token, which the host knows from now on. Why the request ends with it,
        "stop" or "length"; None if it goes on."""
        self.generated.append(token)
        self.update_hashes()
        if logprobs is not None:
            self.logprobs.append(logprobs)
        if token == self.sampling.stop_token:
            return "stop"
        return "length" if len(self.generated) >= self.sampling.max_tokens else None

    def update_hashes(self) -> None:
        num_known = len(self.prompt) + len(self.generated)
        if num_known // self.block_size > len(self.hashes):
            self.hashes += block_hashes(self.tokens, self.spans, self.block_size, self.hashes)

    def cuts_an_image(self, position: int) -> bool:
        """Whether an image begins before the position, and goes on behind it."""
        return any(start < position <= end for start, end in self.spans)

    def image_around(self, position: int) -> Span:
        return next(span for span in self.spans if span[0] < position <= span[1])


@dataclass(frozen=True)
class RequestOutput:
    """What became of a request."""

    request_id: str
    token_ids: list[int]
    finish_reason: str
    """"length", "stop" or "cancelled"."""
    num_cached: int
    """Tokens that were found and not computed, when it last began."""
    logprobs: list[dict[int, float]]
    """By id, for each token, if they were asked for."""
    notes: list[str]

    @classmethod
    def of(cls, request: Request) -> RequestOutput:
        assert request.finish_reason is not None, "it has ended"
        return cls(
            request.request_id,
            request.generated,
            request.finish_reason,
            request.num_cached,
            request.logprobs,
            request.notes,
        )


def new_request(
    request_id: str,
    prompt: Sequence[int],
    images: Sequence[Span],
    sampling: SamplingParams,
    config: EngineConfig,
) -> Request:
    """ValueError or TypeError, naming the request and the value, for what can't be served."""
    spans = sorted((int(start), int(end)) for start, end in _checked_images(request_id, images))
    _check_prompt(request_id, prompt, spans, config)
    _check_sampling(request_id, sampling, config)
    _check_sizes(request_id, len(prompt), spans, sampling.max_tokens, config)
    return Request(
        request_id, [int(token) for token in prompt], spans, sampling, config.limits.block_size
    )


def _checked_images(request_id: str, images: Sequence[Span]) -> Sequence[Span]:
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
    vocab_size, num_ids = config.model.vocab_size, config.model.num_ids
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
    if any(not len(word) for word in sampling.bad_words):
        raise ValueError(f"request {request_id!r} has an empty bad word: give it an id at least")
    ids = [*(sampling.logprobs or ()), *(id for word in sampling.bad_words for id in word)]
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
