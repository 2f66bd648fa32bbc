"""A table of all chunks (chapter 03, medium, 20 minutes).

Gated DeltaNet works through a prompt in chunks of 64 tokens. Each program of its kernels has to
know its chunk and the sequence of that chunk: row i of a table says so to program i. The function
below makes this table, and works. But it reads the lengths from the device, makes the rows one at a
time in Python, and waits once more for their upload.

Make the table from `cu_seqlens_cpu`, which has the same numbers on the host, without a loop over
sequences. Upload it once and without waiting, from memory that is pinned if `current().pin_memory`
is true. Kernels read by address: the table must be contiguous, row after row.

You need to know how sequences lie side by side, with their starts in `cu_seqlens`.

Edit this file, then run

    .venv/bin/pytest katas/gdn/test_chunk_indices.py

Stuck?         .venv/bin/debubble hint chunk_indices
Start afresh?  .venv/bin/debubble reset chunk_indices
"""

from __future__ import annotations

import torch

from katas.gdn.given import FLA_CHUNK_SIZE


# Yours to edit, from here on.
def prepare_chunk_indices(
    cu_seqlens: torch.Tensor, cu_seqlens_cpu: torch.Tensor, chunk_size: int = FLA_CHUNK_SIZE
) -> torch.Tensor:
    """Returns [NT, 2] int32 on the device: (sequence, chunk in this sequence), in order (vLLM
    #38361).

    `cu_seqlens` and `cu_seqlens_cpu` are [num_seqs + 1] int32, on the device and on the host: where
    each sequence starts, then the end of the last one. A sequence without tokens has no chunk.
    """
    rows = []
    for sequence, length in enumerate(cu_seqlens.diff().tolist()):
        for chunk in range(-(-length // chunk_size)):
            rows.append((sequence, chunk))
    return torch.tensor(rows, dtype=torch.int32, device=cu_seqlens.device).view(-1, 2)
