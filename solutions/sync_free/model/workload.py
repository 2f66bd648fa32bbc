"""The scheduler's part, all on the host: which requests run in each step, and their sampling
parameters.

The tokens that a request generates are settled before the first step. So the code before and after
the change computes the same, and preparing a step needs no result of the step before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .config import StepConfig
from .conv_chunks import PAD_SLOT


@dataclass(frozen=True)
class WorkloadRequest:
    """One request of the workload, with all its tokens, from its arrival to its end."""

    name: str
    slot: int
    """Index of the request's convolution states on the device: the same in all its steps, unlike
    its row."""
    tokens: np.ndarray
    """[max_len] int32: the prompt and all tokens that the request will generate."""
    prompt_len: int
    asked_ids: list[int]
    bad_words: list[list[int]]


@dataclass(frozen=True)
class ScheduledStep:
    """One step's batch on the host. A row is an index into the batch; a request's row may change
    from step to step."""

    requests: list[WorkloadRequest]
    """Requests of the batch, by row."""
    arrived: frozenset[str]
    """Names of the requests that run for the first time; they run their whole prompt."""
    num_computed: np.ndarray
    """[num_requests] int32: how many tokens of each request earlier steps have run."""
    query_lens: np.ndarray
    """[num_requests] int32: how many tokens of each request this step runs."""
    num_padding: int
    """Number of padding tokens. They come last, as a sequence that belongs to no request."""

    @property
    def num_requests(self) -> int:
        return len(self.requests)

    @property
    def num_tokens(self) -> int:
        """Number of tokens that this step runs, padding not included."""
        return int(self.query_lens.sum())

    # A scheduler keeps these up to date anyway, so they are computed once and not at a step's
    # expense.

    @cached_property
    def names(self) -> list[str]:
        return [request.name for request in self.requests]

    @cached_property
    def has_arrived(self) -> np.ndarray:
        """[num_requests] bool: True for requests that run for the first time."""
        return np.array([name in self.arrived for name in self.names])

    @cached_property
    def cache_indices(self) -> np.ndarray:
        """[num_requests + 1] int32: the slot of each request's convolution state, then PAD_SLOT for
        the padding."""
        return np.array([*(request.slot for request in self.requests), PAD_SLOT], dtype=np.int32)

    @cached_property
    def seq_lens(self) -> np.ndarray:
        """[num_requests] int32: length of each request at the end of this step."""
        return self.num_computed + self.query_lens

    @cached_property
    def prompt_lens(self) -> np.ndarray:
        """[num_requests] int32: number of tokens of each request's prompt."""
        return np.array([request.prompt_len for request in self.requests], dtype=np.int32)

    @cached_property
    def sequence_lens(self) -> np.ndarray:
        """[num_requests + 1] int32: how many tokens of each sequence this step runs, with the
        padding as the last sequence."""
        return np.append(self.query_lens, np.int32(self.num_padding))

    @cached_property
    def query_start_loc(self) -> np.ndarray:
        """[num_requests + 2] int32: where each sequence's tokens start, with the padding as the
        last sequence, then where it ends."""
        return np.append(0, np.cumsum(self.sequence_lens)).astype(np.int32)

    @cached_property
    def token_table(self) -> np.ndarray:
        """[num_requests, max_len] int32: the tokens of each row's request."""
        return np.stack([request.tokens for request in self.requests])

    @cached_property
    def past_tokens(self) -> list[list[int]]:
        """The token ids that each request has generated so far, without its prompt, by row."""
        ends = self.seq_lens.tolist()
        said = (r.tokens[r.prompt_len : end] for r, end in zip(self.requests, ends, strict=True))
        return [tokens.tolist() for tokens in said]

    @cached_property
    def token_type_starts(self) -> dict[int, int]:
        """First position of type 1, by row, for each prompt that arrives: its second half has type
        1."""
        return {
            row: request.prompt_len // 2
            for row, request in enumerate(self.requests)
            if request.name in self.arrived
        }

    @cached_property
    def asked_ids(self) -> dict[int, list[int]]:
        """Token ids whose log-probabilities each request asks for, by row."""
        return {row: request.asked_ids for row, request in enumerate(self.requests)}

    @cached_property
    def bad_words(self) -> dict[int, list[list[int]]]:
        """Token sequences that each request must not generate, by row."""
        return {row: request.bad_words for row, request in enumerate(self.requests)}

    def prepared(self) -> ScheduledStep:
        """Returns this step after computing all its cached properties, so that no measured step
        pays for them."""
        for name, value in vars(type(self)).items():
            if isinstance(value, cached_property):
                getattr(self, name)
        return self


class Workload:
    """An endless stream of steps, the same for the same config."""

    def __init__(self, config: StepConfig) -> None:
        self.config = config
        self.random = np.random.default_rng(config.seed)
        self.born = 0

    def steps(self, count: int) -> Iterator[ScheduledStep]:
        """Yields `count` steps. All requests of the first step have just arrived."""
        config = self.config
        running: list[WorkloadRequest] = []
        computed: list[int] = []
        for _ in range(count):
            leaving = config.arrivals if running else 0
            free = self._end(running, computed, leaving) if leaving else range(config.num_requests)
            arrived = [self._request(slot) for slot in free]
            running += arrived
            computed += [0] * len(arrived)
            names = frozenset(request.name for request in arrived)
            lens = [r.prompt_len if r.name in names else 1 for r in running]
            yield ScheduledStep(
                list(running),
                names,
                num_computed=np.array(computed, dtype=np.int32),
                query_lens=np.array(lens, dtype=np.int32),
                num_padding=-sum(lens) % config.padded_to,
            ).prepared()
            computed = [done + length for done, length in zip(computed, lens, strict=True)]

    def _end(self, running: list[WorkloadRequest], computed: list[int], count: int) -> list[int]:
        """Removes requests that have reached their last token, and random others up to `count` in
        all; returns their slots. The last rows move into the holes."""
        full = [row for row, done in enumerate(computed) if done >= self.config.max_len - 1]
        others = self.random.permutation(len(running)).tolist()
        rows = list(dict.fromkeys([*full, *others]))[: max(count, len(full))]
        slots = []
        for row in sorted(rows, reverse=True):
            slots.append(running[row].slot)
            running[row], computed[row] = running[-1], computed[-1]
            running.pop()
            computed.pop()
        return slots

    def _request(self, slot: int) -> WorkloadRequest:
        config, draw = self.config, self.random.integers
        self.born += 1
        tokens = draw(config.vocab_size, size=config.max_len, dtype=np.int32)
        prompt_len = int(draw(1, config.prompt_tokens + 1))
        said_first = tokens[prompt_len : prompt_len + 2].tolist()
        return WorkloadRequest(
            f"request {self.born}",
            slot,
            tokens,
            prompt_len,
            draw(config.vocab_size, size=config.asked_ids).tolist(),
            # One word is forbidden after the first generated tokens, and the others at all times.
            [[*said_first, int(draw(config.vocab_size))]]
            + [[int(draw(config.vocab_size))] for _ in range(config.bad_words - 1)],
        )
