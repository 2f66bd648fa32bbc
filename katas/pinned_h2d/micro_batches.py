"""One upload for all micro-batches (chapter 01, medium, 20 minutes).

A step may be split into micro-batches, each with a part of the requests. The keys of the ranges are
the requests' indices in the whole step, but row 0 of a micro-batch is its own first request. The
function below gets that right, with one upload for each micro-batch.

Put the rows of all micro-batches, with their padding, one after the other into one tensor. Call
`upload` once for it, with the spans by row of that tensor and the number of its rows, and give each
micro-batch its part as a view.

You need to know views of tensors, and the padded tensor of `padded_ranges`.

Edit this file, then run

    .venv/bin/pytest katas/pinned_h2d/test_micro_batches.py

Stuck?         .venv/bin/debubble hint micro_batches
Start afresh?  .venv/bin/debubble reset micro_batches
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from katas.pinned_h2d.given import Batch, PrefixRanges, Upload, spans_of, touches


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
