"""One step's batch on the host: the scheduler's decisions, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solutions.flex_graph import ScheduledBatch
from solutions.pinned_h2d.ranges import Span

from .request import Request

NO_SLOT = -1
"""Stands for the slot of a row that has no request."""
FROM_HOST = -1
"""Stands for the source of a token, instead of a slot, if the host knows the token's id."""
DRAFTED = ("lengths", "ends")
"""Names of the arrays about drafts, which an engine with drafts uploads with each step."""


class ScheduledRequest(NamedTuple):
    """A request's part of a step: the positions of the tokens that are computed."""

    request: Request
    positions: range
    samples: bool
    """True if the step samples a token of the request: it computes the request's last token."""

    @property
    def is_decode(self) -> bool:
        """True for a single token that continues a sequence."""
        return len(self.positions) == 1 and self.positions.start > 0


def are_decodes(rows: Iterable[ScheduledRequest]) -> bool:
    """Returns True if each request has a single token that continues a sequence, and samples."""
    return all(row.is_decode and row.samples for row in rows)


@dataclass(frozen=True)
class StepBatch(ScheduledBatch):
    """The batch of a step with R requests: single tokens that continue a sequence first, then
    prefills."""

    rows: list[ScheduledRequest]
    token_sources: np.ndarray
    """[num_tokens]: the slot whose last sampled token this is, if the host doesn't know that token
    yet; FROM_HOST for tokens that are in `token_ids`."""
    slots: np.ndarray
    """[R]: each request's row in the arrays that the device has of running requests."""

    @classmethod
    def of(cls, rows: list[ScheduledRequest]) -> StepBatch:
        """Returns the batch of a step, sorted so that decodes come first."""
        rows = sorted(rows, key=lambda row: not row.is_decode)
        num_columns = max((len(row.request.blocks) for row in rows), default=0)
        block_table = np.zeros((len(rows), num_columns), np.int32)
        token_ids, sources = [], []
        for number, row in enumerate(rows):
            block_table[number, : len(row.request.blocks)] = row.request.blocks
            known = _known_tokens(row.request, row.positions)
            unknown = len(row.positions) - len(known)
            token_ids += known + [0] * unknown
            sources += [FROM_HOST] * len(known) + [row.request.slot] * unknown
        return cls(
            token_ids=np.array(token_ids, np.int32),
            query_lens=np.array([len(row.positions) for row in rows], np.int32),
            seq_lens=np.array([row.positions.stop for row in rows], np.int32),
            block_table=block_table,
            rows=rows,
            token_sources=np.array(sources, np.int32),
            slots=np.array([row.request.slot for row in rows], np.int32),
        )

    @cached_property
    def sampling_rows(self) -> list[ScheduledRequest]:
        """The rows of the requests that get a token from this step, in the order of `rows`."""
        return [row for row in self.rows if row.samples]

    @cached_property
    def logits_rows(self) -> np.ndarray:
        """[number of sampling rows] int32: the index, in the step, of each sampling row's last
        token."""
        samples = np.array([row.samples for row in self.rows], bool)
        return self.query_start_loc[1:][samples] - 1

    @cached_property
    def sampling_slots(self) -> np.ndarray:
        """[number of sampling rows] int32: the slots of these rows' requests, in which the device
        keeps their last tokens."""
        return np.array([row.request.slot for row in self.sampling_rows], np.int32)

    @property
    def positions_of_rows(self) -> tuple[range, ...]:
        """The positions of each request's tokens of this step."""
        return tuple(row.positions for row in self.rows)

    @property
    def images(self) -> dict[int, list[Span]]:
        """The first and last position of each image of a request, by the request's row; rows
        without any are left out."""
        return {
            number: row.request.spans for number, row in enumerate(self.rows) if row.request.spans
        }

    @property
    def in_words(self) -> str:
        """The step in words: `prompt of 24 tokens with 1 image, 3 decodes`."""
        prompts = [row for row in self.rows if not row.is_decode]
        words = [_prompts_in_words(prompts)] if prompts else []
        if decodes := len(self.rows) - len(prompts):
            words.append(f"{decodes} {'decode' if decodes == 1 else 'decodes'}")
        return ", ".join(words)

    @property
    def is_decode(self) -> bool:
        """True if each request has one token, and samples: a graph can run such a step."""
        return are_decodes(self.rows)

    is_drafted = False
    """True if each request also has drafts, and so a token is sampled after each token."""

    @property
    def drafted_arrays(self) -> dict[str, np.ndarray]:
        """The arrays about drafts, by the names of DRAFTED: empty in this class."""
        return {}

    @property
    def graph_size(self) -> int:
        """The size by which a graph for this step is chosen: here its number of tokens."""
        return self.num_tokens


def _prompts_in_words(rows: list[ScheduledRequest]) -> str:
    tokens = sum(len(row.positions) for row in rows)
    what = "prompt" if len(rows) == 1 else f"{len(rows)} prompts"
    images = sum(
        span[0] in row.positions or span[1] in row.positions
        for row in rows
        for span in row.request.spans
    )
    seen = f" with {images} {'image' if images == 1 else 'images'}" if images else ""
    return f"{what} of {tokens:,} tokens{seen}"


def _known_tokens(request: Request, positions: range) -> list[int]:
    """Returns the ids at these positions, up to the first one that the host doesn't know yet."""
    num_prompt = len(request.prompt)
    generated = request.generated
    return [
        request.prompt[position] if position < num_prompt else generated[position - num_prompt]
        for position in positions
        if position < num_prompt + len(generated)
    ]
