"""Takes (-1, -1) for a chunk, and writes before the first token. On a GPU somebody else's memory is
there.

fails: test_rows_without_a_chunk_are_skipped
says: wrote outside the memory of its argument
on: sim
"""

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch


@triton.jit
def local_cumsum_kernel(
    out, g, cu_seqlens, chunk_indices, num_heads, CHUNK: tl.constexpr, HEADS: tl.constexpr
):
    program = tl.program_id(0)
    sequence = tl.load(chunk_indices + 2 * program)
    chunk = tl.load(chunk_indices + 2 * program + 1)
    first = tl.load(cu_seqlens + sequence) + chunk * CHUNK
    length = tl.minimum(tl.load(cu_seqlens + sequence + 1) - first, CHUNK)
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    place = (first + row) * num_heads + head
    exists = (row < length) & (head < num_heads)
    gates = tl.load(g + place, mask=exists, other=0.0)
    tl.store(out + place, tl.cumsum(gates, axis=0), mask=exists)


def chunk_local_cumsum(g, chunk_size, cu_seqlens, chunk_indices):
    out, num_heads = torch.empty_like(g), g.shape[1]
    sizes = {"CHUNK": chunk_size, "HEADS": triton.next_power_of_2(num_heads)}
    grid = (len(chunk_indices),)
    launch(local_cumsum_kernel, grid, out, g, cu_seqlens, chunk_indices, num_heads, **sizes)
    return out
