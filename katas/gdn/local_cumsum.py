"""One launch for all chunks (chapter 03, hard, 40 minutes).

Gated DeltaNet first sums up its gates inside each chunk. The function below works, and its kernel
is sound: it computes one chunk, of all heads. But the function launches the kernel once for each
chunk. To know where the chunks are, it reads the starts of the sequences from the device, and
waits.

Launch the kernel once, with as many programs as `chunk_indices` has rows. Let each program find its
chunk: its row of the table has the sequence and the chunk in that sequence, and `cu_seqlens` has
the sequence's start and end. Rows of -1 are not chunks: a table that was made on the device has
such rows at its end.

You need to know Triton: programs, masks, `tl.cumsum`; and the table of `chunk_indices`.

Edit this file, then run

    .venv/bin/pytest katas/gdn/test_local_cumsum.py

Stuck?         .venv/bin/debubble hint local_cumsum
Start afresh?  .venv/bin/debubble reset local_cumsum
"""

from __future__ import annotations

from itertools import pairwise

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch


# Yours to edit, from here on.
@triton.jit(do_not_specialize=["first", "length"])
def chunk_cumsum_kernel(
    out,  # [num_tokens, num_heads] float32, contiguous
    g,  # [num_tokens, num_heads] float32, contiguous
    first,  # the place of the chunk's first token
    length,  # how many tokens it has, at most CHUNK
    num_heads,
    CHUNK: tl.constexpr,
    HEADS: tl.constexpr,  # a power of two, at least num_heads
):
    """Adds up the gates of one chunk in each program."""
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    place = (first + row).to(tl.int64) * num_heads + head
    exists = (row < length) & (head < num_heads)
    gates = tl.load(g + place, mask=exists, other=0.0)
    tl.store(out + place, tl.cumsum(gates, axis=0), mask=exists)


def chunk_local_cumsum(
    g: torch.Tensor, chunk_size: int, cu_seqlens: torch.Tensor, chunk_indices: torch.Tensor
) -> torch.Tensor:
    """Returns [num_tokens, num_heads] float32: the sum of the gates of each token's chunk, up to
    this token (vLLM #38361).

    g              [num_tokens, num_heads] float32, contiguous
    chunk_size     tokens of a chunk, a power of two
    cu_seqlens     [num_seqs + 1] int32: where each sequence starts, then the end of the last one
    chunk_indices  [num_rows, 2] int32: (sequence, chunk in this sequence), in any order; a row
                   (-1, -1) is skipped
    """
    out = torch.empty_like(g)
    num_heads = g.shape[1]
    for start, end in pairwise(cu_seqlens.tolist()):
        for first in range(start, end, chunk_size):
            launch(
                chunk_cumsum_kernel,
                (1,),
                out,
                g,
                first,
                min(end - first, chunk_size),
                num_heads,
                CHUNK=chunk_size,
                HEADS=triton.next_power_of_2(num_heads),
            )
    return out
