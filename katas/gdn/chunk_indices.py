"""A table of all chunks (chapter 03, medium, 20 minutes).

Gated DeltaNet works through a prompt in chunks of 64 tokens, and each program of its kernels has to
know which chunk of which sequence is its own: row i of a table says it to program i. The function
below makes that table, and works. But it reads the lengths from the device, makes the rows one at a
time in Python, and uploads them by a copy that waits once more.

Make the table from `cu_seqlens_cpu`, where the host has the same numbers, without a loop over
sequences, and send it once, from pinned memory and without waiting. Kernels go by addresses: it is
contiguous, row behind row.

You need to know how sequences lie side by side, with their starts in `cu_seqlens`.

Edit this file, then run

    pytest katas/gdn/test_chunk_indices.py

Stuck?         debubble hint chunk_indices
Start afresh?  debubble reset chunk_indices
"""

from __future__ import annotations

import torch

FLA_CHUNK_SIZE = 64


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
