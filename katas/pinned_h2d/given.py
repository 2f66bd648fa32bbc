"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

Span = tuple[int, int]
PrefixRanges = Mapping[int, Sequence[Span]]
MOST_SEQUENCES = 2**20
NO_RANGE: Span = (0, 0)
Upload = Callable[[PrefixRanges | None, int], torch.Tensor | None]


def ranges_by_row(ranges: PrefixRanges | None, num_seqs: int) -> list[Sequence[Span]] | None:
    """Returns the spans of requests 0 to num_seqs - 1, or None if none of them has any.

    A request without spans gets the single span (0, 0). Keys may be missing, or be num_seqs and
    more. Raises ValueError for more sequences than a step can have.
    """
    if not 0 <= num_seqs <= MOST_SEQUENCES:
        raise ValueError(
            f"{num_seqs} sequences: there are at least 0, and at most {MOST_SEQUENCES}"
        )
    if ranges is None:
        return None
    rows = [ranges.get(request) or [NO_RANGE] for request in range(num_seqs)]
    if all(len(row) == 1 and tuple(row[0]) == NO_RANGE for row in rows):
        return None
    return rows


def spans_of(ranges: PrefixRanges | None, requests: range) -> list[Sequence[Span]]:
    """Returns the spans of these requests, in order; an empty sequence for a request without
    any."""
    return [(ranges or {}).get(request, ()) for request in requests]


@dataclass(frozen=True)
class Batch:
    """The inputs of a step that attention layers read. Its rows are requests, in order, then
    padding without tokens.

    On the device are query_start_loc [num_seqs + 1] int32, seq_lens [num_seqs] int32, block_table
    [num_seqs, max_blocks] int32 and slot_mapping [num_tokens] int64. On the host are `requests`,
    the indices of these requests in the whole step, and `scheduled`, the absolute positions of each
    request's tokens in this step.
    """

    query_start_loc: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    slot_mapping: torch.Tensor
    requests: range
    scheduled: tuple[range, ...]

    @property
    def num_seqs(self) -> int:
        """The number of rows, padding included."""
        return self.seq_lens.shape[0]

    @property
    def num_tokens(self) -> int:
        return self.slot_mapping.shape[0]

    @property
    def max_query_len(self) -> int:
        return max((len(positions) for positions in self.scheduled), default=0)


def touches(spans: Sequence[Span], positions: range) -> bool:
    """True if a valid span (start < end) holds one of the positions, which have no gaps."""
    return any(
        start < end and start < positions.stop and end >= positions.start
        for start, end in spans
        if len(positions)
    )
