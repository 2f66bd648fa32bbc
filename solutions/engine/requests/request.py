"""A request: what is asked for, how far it is, and what it holds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from solutions.pinned_h2d.ranges import Span


class Status(Enum):
    """Where a request is on its way."""

    WAITING = "waiting"
    """Holds no blocks and no slot: it has not begun, or was preempted."""
    LOADING = "loading"
    """Part of its prefix is on its way from host memory."""
    RUNNING = "running"
    """Can be in the next step."""
    FINISHED = "finished"


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How an answer is chosen, and when it ends. By default greedily: the most likely token that is
    allowed, again and again."""

    max_tokens: int = 16
    stop_token: int | None = None
    """The last token of an answer, if it is sampled."""
    stop_tokens: Sequence[int] = ()
    """More such tokens."""
    temperature: float = 0.0
    """What logits are divided by before chance decides. 0 is greedy."""
    top_k: int | None = None
    """Only so many of the most likely tokens may be chosen."""
    top_p: float = 1.0
    """Only the fewest of the most likely tokens that together have this share."""
    min_p: float = 0.0
    """Only tokens with at least this share of the most likely one's chance."""
    seed: int | None = None
    """The same seed gives the same answer, whoever shares the steps. None is another one for each
    request."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens that were said."""
    frequency_penalty: float = 0.0
    """Subtracted as often as they were said."""
    repetition_penalty: float = 1.0
    """Positive logits of tokens that were said or are in the prompt are divided by it, negative
    ones multiplied."""
    logprobs: Sequence[int] | None = None
    """Ids whose log-probability is wanted with each token, beside that of the token itself."""
    bad_words: Sequence[Sequence[int]] = ()
    """Sequences of ids that an answer must not hold, each of one id or more."""

    @property
    def has_penalties(self) -> bool:
        """Whether the device has to count what the request says."""
        penalties = (self.presence_penalty, self.frequency_penalty, self.repetition_penalty)
        return penalties != (0.0, 0.0, 1.0)

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is chosen, by the logits as they are."""
        return not self.temperature and not self.has_penalties

    @property
    def can_be_drafted(self) -> bool:
        """Whether speculation may draft its tokens. Not with penalties, which count what was said
        and not what was drafted, nor with bad words, whose beginning the host must know."""
        return not self.has_penalties and not self.bad_words

    @property
    def looks_back(self) -> bool:
        """Whether the host must know a token before it can prepare the next one."""
        return any(len(word) > 1 for word in self.bad_words)


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
    """For each image, a name of its contents, where its ids alone don't say them."""
    status: Status = Status.WAITING
    generated: list[int] = field(default_factory=list)
    """The answer, as far as the host knows it."""
    num_sampled: int = 0
    """Tokens of the answer, those included that are still on their way to the host. Of a step with
    drafts that is one, until the host knows how many more."""
    num_unsure: int = 0
    """So many more may be on their way."""
    num_computed: int = 0
    """Tokens whose keys, values and states are there, or will be when the queue gets there."""
    blocks: list[int] = field(default_factory=list)
    """KV blocks, in the order of its tokens: the first one has the first `block_size` tokens."""
    slot: int | None = None
    """Its row in what the device keeps of each running request: its last token, and its states."""
    num_named: int = 0
    """How many of its first blocks others can find by their hashes."""
    hashes: list[bytes] = field(default_factory=list)
    """Names of its full blocks, as far as the host knows their tokens."""
    num_cached: int = 0
    """Tokens that were found and not computed, when it last began."""
    logprobs: list[dict[int, float]] = field(default_factory=list)
    finish_reason: str | None = None
    is_reported: bool = True
    """False for a request whose answer its caller reads from here."""
    notes: list[str] = field(default_factory=list)
    """What went wrong and was made good."""

    def __post_init__(self) -> None:
        self.update_hashes()

    @property
    def tokens(self) -> list[int]:
        """Prompt and answer, as far as the host knows it."""
        return self.prompt + self.generated

    @property
    def num_tokens(self) -> int:
        """Prompt and answer, those included that the host doesn't know yet."""
        return len(self.prompt) + self.num_sampled

    @property
    def in_flight(self) -> int:
        """Sampled tokens that the host doesn't know yet."""
        return self.num_sampled - len(self.generated)

    @property
    def most_tokens(self) -> int:
        """Prompt and answer, when it ends with its length."""
        return len(self.prompt) + self.sampling.max_tokens

    @property
    def must_wait(self) -> bool:
        """True while nothing of it can be computed: all of its tokens are sampled, or what it must
        not say next depends on one that the host doesn't know yet."""
        is_done = self.finish_reason is not None or self.num_sampled >= self.sampling.max_tokens
        return is_done or (self.sampling.looks_back and self.in_flight > 0)

    @property
    def reason_to_end(self) -> str | None:
        """Why no token follows the last one that the host knows: "stop" or "length", or another
        reason that it was ended for. None if it goes on."""
        if self.finish_reason is not None:
            return self.finish_reason
        sampling = self.sampling
        if self.generated and self.generated[-1] in (sampling.stop_token, *sampling.stop_tokens):
            return "stop"
        return "length" if len(self.generated) >= self.sampling.max_tokens else None

    def take(self, token: int, logprobs: dict[int, float] | None) -> None:
        """Adds a sampled token, which the host knows from now on. If this is interrupted, it was
        not taken, or it was and `begin_anew` makes up for the rest."""
        if logprobs is not None:
            self.logprobs[len(self.generated) :] = [logprobs]
        self.generated.append(token)
        self.update_hashes()

    def settle(self, num_tokens: int, num_drafts: int) -> None:
        """A step with drafts has given it so many tokens, and it was counted as 1, with
        `num_drafts` that were unsure. Who has given way meanwhile has computed none."""
        more = num_tokens - 1
        self.num_unsure -= num_drafts
        self.num_sampled += more
        if self.status is Status.RUNNING:
            self.num_computed += more

    def begin_anew(self) -> None:
        """It waits, holds nothing, and is what the host knows of it."""
        self.status, self.blocks, self.slot = Status.WAITING, [], None
        self.num_computed = self.num_named = self.num_unsure = 0
        self.num_sampled = len(self.generated)
        self.update_hashes()

    def update_hashes(self) -> None:
        """Names the blocks that have become full."""
        num_known = len(self.prompt) + len(self.generated)
        if num_known // self.block_size > len(self.hashes):
            self.hashes += block_hashes(
                self.tokens, self.spans, self.block_size, self.hashes, self.image_names
            )

    def cuts_an_image(self, position: int) -> bool:
        """Whether an image begins before the position, and goes on behind it."""
        return any(start < position <= end for start, end in self.spans)

    def image_around(self, position: int) -> Span:
        """The image that the position cuts. StopIteration if there is none."""
        return next(span for span in self.spans if span[0] < position <= span[1])


@dataclass(frozen=True)
class RequestOutput:
    """What became of a request that has ended."""

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


def block_hashes(
    tokens: Sequence[int],
    spans: Sequence[Span],
    block_size: int,
    known: Sequence[bytes] = (),
    image_names: Sequence[bytes] = (),
) -> list[bytes]:
    """A hash for each full block behind those that are `known`: of all that its keys and values
    depend on.

    That is each token up to its end; and where an image begins before that and goes on behind it,
    the whole image, since its tokens see one another both ways. An image's place counts too: the
    same ids without it would see less. A block whose image is not complete has no hash.
    `image_names`: of the contents of each image, where the same ids may stand for another one.
    """
    ids = np.asarray(tokens, dtype="<i8")
    hashes, previous = [], known[-1] if known else b""
    for end in range((len(known) + 1) * block_size, len(ids) + 1, block_size):
        start = end - block_size
        own = [span for span in spans if span[0] < end and span[1] >= start]
        until = max([end, *(last + 1 for _, last in own)])
        if until > len(ids):
            break
        contents = ids[start:until].tobytes() + np.asarray(own, dtype="<i8").tobytes()
        contents += b"".join(
            name for name, span in zip(image_names, spans, strict=False) if span in own
        )
        previous = hashlib.sha256(previous + contents).digest()
        hashes.append(previous)
    return hashes
