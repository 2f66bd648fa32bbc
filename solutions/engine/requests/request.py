"""A request: its prompt and sampling parameters, its progress, and the memory that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from time import perf_counter

from solutions.pinned_h2d.ranges import Span

from .block_hashes import block_hashes


class Status(Enum):
    """The state of a request."""

    WAITING = "waiting"
    """Holds no blocks and no slot: it has not begun, or was preempted."""
    LOADING = "loading"
    """Part of its prefix is being loaded from host memory."""
    RUNNING = "running"
    """Holds blocks and a slot, and can be in the next step."""
    FINISHED = "finished"


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """The parameters of an answer: how its tokens are chosen, and when it ends. The default is
    greedy: each token is the most likely one that is allowed."""

    max_tokens: int = 16
    stop_token: int | None = None
    """The id that ends an answer when it is sampled. It is part of the answer."""
    stop_tokens: Sequence[int] = ()
    """More ids that end an answer."""
    temperature: float = 0.0
    """Logits are divided by it before a token is drawn. 0 is greedy."""
    top_k: int | None = None
    """The number of most likely tokens that may be chosen. None is all."""
    top_p: float = 1.0
    """The share of probability that is kept: the smallest set of most likely tokens whose
    probabilities sum to at least this may be chosen."""
    min_p: float = 0.0
    """The least probability of a token that may be chosen, as a fraction of the most likely
    token's."""
    seed: int | None = None
    """The same seed gives the same answer, whichever requests share its steps. None draws a new
    seed for each request."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens that are in the answer so far."""
    frequency_penalty: float = 0.0
    """Subtracted from a token's logit once for each time it is in the answer so far."""
    repetition_penalty: float = 1.0
    """Positive logits of tokens in the prompt or in the answer so far are divided by it, negative
    logits are multiplied by it."""
    logprobs: Sequence[int] | None = None
    """Ids whose log-probability is returned with each token, beside that of the token itself."""
    bad_words: Sequence[Sequence[int]] = ()
    """Sequences of ids that an answer must not contain, each of one id or more."""

    @cached_property
    def has_penalties(self) -> bool:
        """True if any penalty is set, so that the device has to count the tokens of the request."""
        penalties = (self.presence_penalty, self.frequency_penalty, self.repetition_penalty)
        return penalties != (0.0, 0.0, 1.0)

    @cached_property
    def is_greedy(self) -> bool:
        """True if the temperature is 0 and no penalty is set: the token with the highest logit
        among those allowed is chosen."""
        return not self.temperature and not self.has_penalties

    @cached_property
    def can_be_drafted(self) -> bool:
        """True if speculation may draft tokens of the request. Penalties prevent that, since they
        count accepted tokens and no drafts. So do bad words, since the host must know how they
        begin."""
        return not self.has_penalties and not self.bad_words

    @property
    def has_extras(self) -> bool:
        """True if penalties, bad words or log-probabilities are asked for."""
        return self.has_penalties or bool(self.bad_words) or self.logprobs is not None

    @cached_property
    def looks_back(self) -> bool:
        """True if the host must know a token before it can prepare the next one, since a bad word
        has several ids."""
        return any(len(word) > 1 for word in self.bad_words)

    @cached_property
    def ends(self) -> frozenset[int | None]:
        """The ids that end an answer; None, which is no id, may be among them."""
        return frozenset((self.stop_token, *self.stop_tokens))


@dataclass(eq=False)
class Request:
    """A prompt and its answer, while they are being served."""

    request_id: str
    prompt: list[int]
    spans: list[Span]
    """First and last position of each image in the prompt, in order."""
    sampling: SamplingParams
    block_size: int
    image_names: list[bytes] = field(default_factory=list)
    """A name of each image's contents, where its ids alone don't identify them."""
    layout: bytes = b""
    """The layout and dtype of the cache, part of each hash."""
    status: Status = Status.WAITING
    generated: list[int] = field(default_factory=list)
    """The tokens of the answer that the host knows."""
    num_sampled: int = 0
    """Tokens of the answer that have been sampled, including those in flight to the host. A step
    with drafts counts as one token until the host knows how many it gave."""
    num_unsure: int = 0
    """The most tokens beyond `num_sampled` that steps with drafts in flight may have given."""
    num_computed: int = 0
    """Tokens whose keys, values and states are computed, by the steps that have run or are
    queued."""
    blocks: list[int] = field(default_factory=list)
    """KV blocks, in the order of its tokens: the first one has the first `block_size` tokens."""
    slot: int | None = None
    """Its row in the arrays that the device has of each running request: its last token, and its
    states."""
    num_named: int = 0
    """How many of its first blocks are registered, so that other requests find them by their
    hashes."""
    hashes: list[bytes] = field(default_factory=list)
    """Hashes of its full blocks, as far as the host knows their tokens."""
    num_cached: int = 0
    """Tokens that were found in a cache and not computed, when the request last began."""
    logprobs: list[dict[int, float]] = field(default_factory=list)
    finish_reason: str | None = None
    is_reported: bool = True
    """True if the engine reports the request when it has ended; False if the caller reads the
    answer from this object."""
    notes: list[str] = field(default_factory=list)
    """Sentences about failures that the engine recovered from."""
    last_time: float = field(default_factory=perf_counter)
    """The host's time in seconds when its last token arrived, or the request itself."""

    has_extras: bool = field(init=False)
    """True for a request with images, penalties, bad words or log-probabilities, for which a step
    does more than upload numbers."""

    def __post_init__(self) -> None:
        self.has_extras = bool(self.spans) or self.sampling.has_extras
        self.update_hashes()

    @property
    def tokens(self) -> list[int]:
        """The prompt, and the answer as far as the host knows it."""
        return self.prompt + self.generated

    @property
    def num_known(self) -> int:
        """The number of tokens of prompt and answer that the host knows."""
        return len(self.prompt) + len(self.generated)

    def known_tokens(self, start: int, end: int) -> list[int]:
        """Returns the tokens at the positions from `start` up to `end`, as far as the host knows
        them."""
        first, last = (max(position - len(self.prompt), 0) for position in (start, end))
        return self.prompt[start:end] + self.generated[first:last]

    @property
    def num_tokens(self) -> int:
        """The number of tokens of prompt and answer, those in flight to the host included."""
        return len(self.prompt) + self.num_sampled

    @property
    def in_flight(self) -> int:
        """Sampled tokens that the host doesn't know yet."""
        return self.num_sampled - len(self.generated)

    @property
    def most_tokens(self) -> int:
        """The number of tokens of prompt and answer, if the answer gets as long as it may."""
        return len(self.prompt) + self.sampling.max_tokens

    @property
    def must_wait(self) -> bool:
        """True while no token of the request can be computed: it has ended, all of its tokens are
        sampled, or a bad word depends on a token that the host doesn't know yet."""
        is_done = self.finish_reason is not None or self.num_sampled >= self.sampling.max_tokens
        return is_done or (self.sampling.looks_back and self.in_flight > 0)

    @property
    def reason_to_end(self) -> str | None:
        """The reason why no token follows the last one that the host knows: "stop" or "length", or
        the reason for which the request was ended. None if it goes on."""
        if self.finish_reason is not None:
            return self.finish_reason
        if self.generated and self.generated[-1] in self.sampling.ends:
            return "stop"
        return "length" if len(self.generated) >= self.sampling.max_tokens else None

    def take(
        self, position: int, tokens: Sequence[int], logprobs: Sequence[dict[int, float] | None]
    ) -> str | None:
        """Adds sampled tokens that have reached the host, from `position` in the request on, up to
        the token that ends the answer. A second call, after an interruption, adds the rest. Returns
        `reason_to_end`."""
        num_taken, end = self.num_known - position, position + len(tokens)
        reason = self.reason_to_end if num_taken else None
        for number in range(num_taken, len(tokens)):
            if reason:
                break
            if (of_token := logprobs[number]) is not None:
                self.logprobs[len(self.generated) :] = [of_token]
            self.generated.append(tokens[number])
            reason = self.reason_to_end
        if end // self.block_size > position // self.block_size:
            self.update_hashes()
        return reason

    def settle(self, num_tokens: int, num_drafts: int) -> None:
        """Corrects the counts after a step with drafts: it gave `num_tokens` tokens, and was
        counted as 1 sure and `num_drafts` unsure ones. A request that was preempted meanwhile has
        computed none."""
        more = num_tokens - 1
        self.num_unsure -= num_drafts
        self.num_sampled += more
        if self.status is Status.RUNNING:
            self.num_computed += more

    def reset(self) -> None:
        """Resets the request to what the host knows of it: it waits, and holds nothing."""
        self.status, self.blocks, self.slot = Status.WAITING, [], None
        self.num_computed = self.num_named = self.num_unsure = 0
        self.num_sampled = len(self.generated)
        self.update_hashes()

    def update_hashes(self) -> None:
        """Adds to `hashes` the hashes of blocks that have become full."""
        first = len(self.hashes) * self.block_size
        if self.num_known >= first + self.block_size:
            self.hashes += block_hashes(
                self.known_tokens(first, self.num_known),
                self.spans,
                self.block_size,
                self.hashes,
                self.image_names,
                self.layout,
            )

    def cuts_an_image(self, position: int) -> bool:
        """Returns True if an image begins before the position and continues at it."""
        return any(start < position <= end for start, end in self.spans)

    def image_around(self, position: int) -> Span:
        """Returns the image that the position cuts. Raises StopIteration if there is none."""
        return next(span for span in self.spans if span[0] < position <= span[1])


@dataclass(frozen=True)
class RequestOutput:
    """The result of a request that has ended."""

    request_id: str
    token_ids: list[int]
    finish_reason: str
    """"length", "stop" or "cancelled"."""
    num_cached: int
    """Tokens that were found in a cache and not computed, when the request last began."""
    logprobs: list[dict[int, float]]
    """The log-probabilities by id, one dict for each token, if they were asked for."""
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
