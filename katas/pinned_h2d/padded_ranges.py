"""One tensor for all requests (chapter 01, easy, 15 minutes).

Tokens of an image may attend to each other in both directions, so attention needs the positions of
the images: a span (start, end) for each image, by request. The function below works. But it uploads
each request's spans separately, and waits each time.

Build the whole padded tensor on the host, in pinned memory, and upload it once without waiting. Pin
the memory if the platform can: `pin_memory=current().pin_memory`, from `debubble.accelerator`.

You need to know how to upload from pinned memory.

Edit this file, then run

    .venv/bin/pytest katas/pinned_h2d/test_padded_ranges.py

Stuck?         .venv/bin/debubble hint padded_ranges
Start afresh?  .venv/bin/debubble reset padded_ranges
"""

from __future__ import annotations

import torch
from torch.nn.utils.rnn import pad_sequence

from katas.pinned_h2d.given import PrefixRanges, ranges_by_row


# Yours to edit, from here on.
def compute_mm_prefix_range_tensor(
    ranges: PrefixRanges | None, num_seqs: int, device: torch.device
) -> torch.Tensor | None:
    """Returns [num_seqs, max_ranges, 2] int32 on the device, zero padded; None without ranges."""
    rows = ranges_by_row(ranges, num_seqs)
    if rows is None:
        return None
    uploaded = [torch.tensor(spans, dtype=torch.int32, device=device) for spans in rows]
    return pad_sequence(uploaded, batch_first=True)
