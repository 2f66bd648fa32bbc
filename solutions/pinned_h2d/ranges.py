"""Prefix ranges on the host: which tokens of which request may see each other both ways.

They have the form `{request: [(start, end), ...]}`. The key is the request's index in the batch,
and each span consists of absolute prompt positions, both inclusive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from itertools import chain

import numpy as np

from solutions.common.host_integers import is_integer
from solutions.common.shown import shown

Span = tuple[int, int]
"""(start, end) of a span of prompt positions, both inclusive. It counts as a range only if start <
end."""
PrefixRanges = Mapping[int, Sequence[Span]]

NO_RANGE: Span = (0, 0)
MOST_SEQUENCES = 2**20
"""The most sequences that a step can have. Each has a row on the host."""
LAST_POSITION = np.iinfo(np.int32).max


class RangeState(Enum):
    """The state of a range tensor that the runner has not made yet, in place of the tensor.

    None is something else: it says that the runner is done, and that no range matters in this step.
    """

    NOT_COMPUTED = "not computed yet"


NOT_COMPUTED = RangeState.NOT_COMPUTED


class CheckedRanges(dict[int, Sequence[Span]]):
    """Ranges that a runner has checked in this step already, so that `check_ranges` doesn't check
    them again."""


def check_ranges(ranges: PrefixRanges | None) -> None:
    """Raises ValueError, with the request and the value, for a negative request index, and for a
    span that is not within the prompt positions of int32."""
    # The spans of a step are many, so they are checked as one array, and one by one only for an
    # exact error message.
    if not (ranges is None or type(ranges) is CheckedRanges or _are_valid(ranges)):
        _check_each(ranges)


def _are_valid(ranges: PrefixRanges) -> bool:
    spans = np.array([*chain.from_iterable(ranges.values())] or [NO_RANGE])
    if spans.dtype.kind not in "iu" or spans.shape[1:] != (2,) or min(ranges, default=0) < 0:
        return False
    first, last = spans.T
    return bool(((first >= 0) & (first <= last) & (last <= LAST_POSITION)).all())


def _check_each(ranges: PrefixRanges) -> None:
    for request, spans in ranges.items():
        if request < 0:
            raise ValueError(f"request {request}: a request index must not be negative")
        for span in spans:
            check_span(request, span)


def check_span(request: int, span: Span) -> None:
    """Raises TypeError unless `span` is a pair of integers, and ValueError unless 0 <= start <= end
    and both fit int32. `request` is for the message."""
    if not isinstance(span, Sequence) or isinstance(span, str | bytes) or len(span) != 2:
        raise TypeError(f"{_about(request, span)} must be a pair (start, end)")
    start, end = span
    if not is_integer(start) or not is_integer(end):
        raise TypeError(f"{_about(request, span)} must hold two integers")
    if start < 0:
        raise ValueError(f"{_about(request, span)} must not start below position 0")
    if start > end:
        raise ValueError(f"{_about(request, span)} starts after its end: write it as (start, end)")
    if end > LAST_POSITION:
        raise ValueError(f"{_about(request, span)} must fit int32, up to {LAST_POSITION}")


def _about(request: int, span: object) -> str:
    if isinstance(span, list | tuple) and len(span) <= 3:
        return f"request {request}: span ({', '.join(map(shown, span))})"
    return f"request {request}: span {shown(span)}"


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


def touches(spans: Sequence[Span], positions: range) -> bool:
    """True if a valid span (start < end) holds one of the positions, which have no gaps."""
    return any(
        start < end and start < positions.stop and end >= positions.start
        for start, end in spans
        if len(positions)
    )
