"""One step's batch on the host: what the scheduler decided, as numbers."""

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
"""Of a row without a request."""
FROM_HOST = -1
"""Instead of a slot, for a token whose id the host knows."""
DRAFTED = ("lengths", "ends")
"""What travels with each step too, where steps may have drafts."""


class ScheduledRequest(NamedTuple):
    """A request's part of a step: which of its tokens are computed."""

    request: Request
    positions: range
    samples: bool
    """Whether the step gives the request a token: it computes the last one that there is."""

    @property
    def is_decode(self) -> bool:
        """True for one token that goes on from others."""
        return len(self.positions) == 1 and self.positions.start > 0


def are_decodes(rows: Iterable[ScheduledRequest]) -> bool:
    """True if each request has one token that goes on from others, and samples one."""
    return all(row.is_decode and row.samples for row in rows)


@dataclass(frozen=True)
class StepBatch(ScheduledBatch):
    """R requests: those of one token that go on from others first, then prefills."""

    rows: list[ScheduledRequest]
    token_sources: np.ndarray
    """[num_tokens]: the slot whose last sampled token this is, since the host doesn't know it yet;
    FROM_HOST for tokens that are in `token_ids`."""
    slots: np.ndarray
    """[R]: each request's row in what the device keeps of it."""

    @classmethod
    def of(cls, rows: list[ScheduledRequest]) -> StepBatch:
        """The numbers of a step, with its decodes in front."""
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
        """The requests that get a token from this step, in the order of `rows`."""
        return [row for row in self.rows if row.samples]

    @cached_property
    def logits_rows(self) -> np.ndarray:
        """[number of sampling rows] int32: the last token of each, among those of the step."""
        samples = np.array([row.samples for row in self.rows], bool)
        return self.query_start_loc[1:][samples] - 1

    @cached_property
    def sampling_slots(self) -> np.ndarray:
        """[number of sampling rows] int32: the slots that keep their tokens on the device."""
        return np.array([row.request.slot for row in self.sampling_rows], np.int32)

    @property
    def positions_of_rows(self) -> tuple[range, ...]:
        """For each request, the positions of its tokens of this step."""
        return tuple(row.positions for row in self.rows)

    @property
    def images(self) -> dict[int, list[Span]]:
        """First and last position of each image, by row; rows without any are left out."""
        return {
            number: row.request.spans for number, row in enumerate(self.rows) if row.request.spans
        }

    @property
    def is_decode(self) -> bool:
        """True if each request has one token, and samples one: a step that a graph can run."""
        return are_decodes(self.rows)

    @property
    def drafted_arrays(self) -> dict[str, np.ndarray]:
        """What the device is told of drafts, by the names of DRAFTED: here nothing."""
        return {}

    @property
    def graph_size(self) -> int:
        """What a graph must hold, in what its sizes are counted in."""
        return self.num_tokens


def _known_tokens(request: Request, positions: range) -> list[int]:
    """The ids at these positions, up to the first that the host doesn't know yet."""
    num_prompt = len(request.prompt)
    generated = request.generated
    return [
        request.prompt[position] if position < num_prompt else generated[position - num_prompt]
        for position in positions
        if position < num_prompt + len(generated)
    ]
