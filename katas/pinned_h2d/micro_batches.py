"""One upload for all micro-batches (chapter 01, medium, 20 minutes).

A step may be split into micro-batches, each with a part of the requests. The keys of the ranges are
the requests' indices in the whole step, but row 0 of a micro-batch is its own first request. The
function below gets that right, with one upload for each micro-batch.

Put the rows of all micro-batches one after the other into one tensor, upload it once, and give each
micro-batch its part as a view.

You need to know views of tensors, and the padded tensor of `padded_ranges`.

Edit this file, then run

    pytest katas/pinned_h2d/test_micro_batches.py

Stuck?         debubble hint micro_batches
Start afresh?  debubble reset micro_batches
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

Span = tuple[int, int]
PrefixRanges = Mapping[int, Sequence[Span]]
Upload = Callable[[PrefixRanges | None, int], torch.Tensor | None]


# Yours to edit, from here on.
def range_tensors_by_micro_batch(
    ranges: PrefixRanges | None, batches: Sequence[Batch], upload: Upload
) -> list[torch.Tensor | None]:
    """Returns the range tensor of each micro-batch, in order: its rows of the one tensor that
    `upload` returns, [num_seqs, max_ranges, 2] int32. All are None if `upload` returns None.

    `ranges` is keyed by the request's index in the whole step. `batch.requests` are the requests of
    one micro-batch; its rows after them are padding, and zero. `upload(ranges, num_seqs)` is called
    once, and with None if no span holds a scheduled position.
    """
    tensors = []
    for batch in batches:
        own = spans_of(ranges, batch.requests)
        matters = any(map(touches, own, batch.scheduled))
        tensors.append(upload(dict(enumerate(own)) if matters else None, batch.num_seqs))
    return tensors


# region Given: what the code above uses. You may change it, and need not.


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


# endregion
