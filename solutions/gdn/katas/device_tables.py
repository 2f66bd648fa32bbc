"""Both chunk tables on the device by PyTorch's own operators: no kernel of ours, and no wait.

It stands here because the system makes them by one kernel (`device_tables`), and this exercise is
to be solved without Triton.
"""

from __future__ import annotations

import torch

from ..chunk_tables import prepare_chunk_offsets
from ..rule.chunks import FLA_CHUNK_SIZE, ChunkTables, most_chunks


def search_chunk_tables(
    cu_seqlens: torch.Tensor, num_tokens: int, chunk_size: int = FLA_CHUNK_SIZE
) -> ChunkTables:
    """Both tables of lengths that the host doesn't know (vLLM #38361).

    `cu_seqlens` [num_seqs + 1] int32 on the device, from 0 to `num_tokens`: where each sequence
    starts, then the end of the last one. `chunk_indices` has most_chunks(num_seqs, num_tokens,
    chunk_size) rows, and those behind the last chunk are (-1, -1).
    """
    offsets = prepare_chunk_offsets(cu_seqlens, chunk_size)
    num_rows = most_chunks(len(cu_seqlens) - 1, num_tokens, chunk_size)
    row = torch.arange(num_rows, device=cu_seqlens.device)
    # The first sequence of which not all chunks come before this row: it has chunks.
    sequence = torch.searchsorted(offsets[1:], row, right=True)
    rows = torch.stack([sequence, row - offsets[sequence]], dim=1)
    rows.masked_fill_((row >= offsets[-1]).unsqueeze(1), -1)
    return ChunkTables(rows.int(), offsets)
