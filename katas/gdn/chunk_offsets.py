"""A sum that starts at zero (chapter 03, easy, 10 minutes).

The kernel that passes states from chunk to chunk needs a second table: the number of chunks before
each sequence, and at the end the number of all chunks. The function below sums these numbers up on
the device, where the lengths are, and works. But the host makes the zero in front of the sums, and
waits for its upload.

Let the device make the whole table: no upload is needed.

You need to know `cumsum`, and the rows of `chunk_indices`.

Edit this file, then run

    .venv/bin/pytest katas/gdn/test_chunk_offsets.py

Stuck?         .venv/bin/debubble hint chunk_offsets
Start afresh?  .venv/bin/debubble reset chunk_offsets
"""

from __future__ import annotations

import torch

from katas.gdn.given import FLA_CHUNK_SIZE


# Yours to edit, from here on.
def prepare_chunk_offsets(
    cu_seqlens: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [num_seqs + 1] int64 on the device of `cu_seqlens`, host or GPU: how many chunks come
    before each sequence, then how many there are (vLLM #38361). Copies nothing between the two.

    `cu_seqlens` [num_seqs + 1] int32: where each sequence starts, then the end of the last one.
    """
    chunks = (cu_seqlens.diff() + (chunk_size - 1)) // chunk_size
    return torch.cat([torch.tensor([0], device=cu_seqlens.device), chunks.cumsum(0)])
