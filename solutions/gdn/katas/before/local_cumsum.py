"""A launch for each chunk, with starts that the host reads from the device."""

from __future__ import annotations

from itertools import pairwise

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch


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
    """Returns [num_tokens, num_heads] float32: for each token the sum of the gates from the start
    of its chunk up to this token."""
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
