"""One step's batch on the host: the scheduler's decisions, as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import numpy as np

from solutions.flex_graph import ScheduledBatch
from solutions.pinned_h2d.ranges import Span

from .request import Request
from .slot_tables import SlotTables

NO_SLOT = -1
"""Stands for the slot of a row that has no request."""
FROM_HOST = -1
"""Stands for the source of a token, instead of a slot, if the host uploads the token's id."""
DRAFTED = ("lengths", "ends")
"""Names of the arrays about drafts, which an engine with drafts uploads with each step."""
SAME = ("query_start_loc", "row_of_token", "logits_rows", "sampling_slots", "is_decode")
"""Names of what is computed from a batch and stays the same from a decode step to the next one."""


class ScheduledRequest(NamedTuple):
    """A request's part of a step: the positions of the tokens that are computed."""

    request: Request
    start: int
    end: int
    """The position after the last token that is computed."""
    samples: bool
    """True if the step samples a token of the request: it computes the request's last token."""

    @property
    def positions(self) -> range:
        return range(self.start, self.end)

    @property
    def is_decode(self) -> bool:
        """True for a single token that continues a sequence."""
        return self.end - self.start == 1 and self.start > 0


def are_decodes(rows: Iterable[ScheduledRequest]) -> bool:
    """Returns True if each request has a single token that continues a sequence, and samples."""
    return all(row.is_decode and row.samples for row in rows)


@dataclass(frozen=True)
class StepBatch(ScheduledBatch):
    """The batch of a step with R requests: single tokens that continue a sequence first, then
    prefills."""

    rows: Sequence[ScheduledRequest]
    columns: tuple[tuple, ...]
    """The same as four columns: requests, starts, ends, and whether they sample."""
    token_sources: np.ndarray
    """[num_tokens]: the slot whose last sampled token this is, for tokens that the device sampled
    since the request began; FROM_HOST for tokens that are in `token_ids`."""
    slots: np.ndarray
    """[R]: each request's row in the arrays that the device has of running requests."""
    samples: np.ndarray
    """[R] bool: True for each request that gets a token from this step."""
    extra_rows: list[int]
    """The numbers of the rows whose requests have extras."""
    sampling_numbers: np.ndarray
    """[number of sampling rows, WIDTH]: the sampling parameters of these rows' requests, from
    `numbers_of`."""
    next_positions: np.ndarray
    """[number of sampling rows]: the position of the token that each of them samples, at least."""

    @classmethod
    def of(cls, rows: Sequence[ScheduledRequest], tables: SlotTables) -> StepBatch:
        """Returns the batch of a step, sorted so that decodes come first. `tables` has the rows of
        its requests."""
        columns = tuple(zip(*rows, strict=True))
        last = tables.last
        if isinstance(last, cls) and last._goes_on(*columns):
            tables.last = last = last._one_later(rows, columns, tables)
            return last
        starts, ends = (np.array(column, np.int32) for column in columns[1:3])
        samples = np.array(columns[3], bool)
        is_decode = (ends - starts == 1) & (starts > 0)
        if (is_decode[1:] > is_decode[:-1]).any():
            order = np.argsort(~is_decode, kind="stable").tolist()
            return cls.of([rows[number] for number in order], tables)
        slots = np.array([request.slot for request in columns[0]], np.int32)
        batch = cls(
            token_ids=np.zeros(int((ends - starts).sum()), np.int32),
            query_lens=ends - starts,
            seq_lens=ends,
            block_table=tables.blocks[slots],
            rows=rows,
            columns=columns,
            token_sources=np.repeat(slots, ends - starts),
            slots=slots,
            samples=samples,
            extra_rows=np.flatnonzero(tables.has_extras[slots]).tolist(),
            sampling_numbers=tables.wishes[slots[samples]],
            next_positions=ends[samples],
        )
        # All tokens after those with which a request began were sampled by the device.
        for number in np.flatnonzero(starts < tables.num_known[slots]).tolist():
            known = rows[number].request.known_tokens(starts[number], ends[number])
            first = batch.query_start_loc[number]
            batch.token_ids[first : first + len(known)] = known
            batch.token_sources[first : first + len(known)] = FROM_HOST
        tables.last = None
        if batch.is_decode and (batch.token_sources != FROM_HOST).all():
            tables.last = batch
        return batch

    def _goes_on(self, requests: tuple, starts: tuple, ends: tuple, samples: tuple) -> bool:
        """Returns True if a step of these columns has one more token of each of these decodes."""
        is_next = (requests, starts) == self.columns[::2] and all(samples)
        # Each request has a token at least.
        return is_next and sum(ends) - sum(starts) == len(requests)

    def _one_later(
        self, rows: Sequence[ScheduledRequest], columns: tuple[tuple, ...], tables: SlotTables
    ) -> StepBatch:
        """Returns the batch of the next step, in which each of these decodes goes on by a token.
        Only lengths, positions and blocks change."""
        ends, blocks = self.seq_lens + 1, tables.blocks.take(self.slots, axis=0)
        batch = replace(self, rows=rows, columns=columns, seq_lens=ends, next_positions=ends)
        same = {name: getattr(self, name) for name in SAME}
        changed = {"positions": self.seq_lens, "block_table": blocks, "sampling_rows": [*rows]}
        vars(batch).update(same, **changed)
        return batch

    @cached_property
    def sampling_rows(self) -> list[ScheduledRequest]:
        """The rows of the requests that get a token from this step, in the order of `rows`."""
        return [*compress(self.rows, self.samples.tolist())]

    @cached_property
    def with_extras(self) -> list[tuple[int, ScheduledRequest]]:
        """The rows whose requests have extras, each with its number in `rows`."""
        return [(number, self.rows[number]) for number in self.extra_rows]

    @property
    def is_chosen_twice(self) -> bool:
        """True if a request has bad words: then the step samples in two rounds."""
        return any(row.samples and row.request.sampling.bad_words for _, row in self.with_extras)

    @cached_property
    def logits_rows(self) -> np.ndarray:
        """[number of sampling rows] int32: the index, in the step, of each sampling row's last
        token."""
        return self.query_start_loc[1:][self.samples] - 1

    @cached_property
    def sampling_slots(self) -> np.ndarray:
        """[number of sampling rows] int32: the slots of these rows' requests, in which the device
        keeps their last tokens."""
        return self.slots[self.samples]

    @property
    def images(self) -> dict[int, list[Span]]:
        """The first and last position of each image of a request, by the request's row; rows
        without any are left out."""
        rows = self.with_extras
        return {number: row.request.spans for number, row in rows if row.request.spans}

    @property
    def in_words(self) -> str:
        """The step in words: `prompt of 24 tokens with 1 image, 3 decodes`."""
        prompts = [row for row in self.rows if not row.is_decode]
        words = [_prompts_in_words(prompts)] if prompts else []
        if decodes := len(self.rows) - len(prompts):
            words.append(f"{decodes} {'decode' if decodes == 1 else 'decodes'}")
        return ", ".join(words)

    @cached_property
    def is_decode(self) -> bool:
        """True if each request has a single token that continues a sequence, and samples: a graph
        can run such a step."""
        continues = (self.query_lens == 1) & (self.seq_lens > 1)
        return bool((continues & self.samples).all())

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
    tokens = sum(row.end - row.start for row in rows)
    what = "prompt" if len(rows) == 1 else f"{len(rows)} prompts"
    images = sum(
        span[0] in row.positions or span[1] in row.positions
        for row in rows
        for span in row.request.spans
    )
    seen = f" with {images} {'image' if images == 1 else 'images'}" if images else ""
    return f"{what} of {tokens:,} tokens{seen}"
