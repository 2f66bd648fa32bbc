"""Gives each program a sequence, and goes on adding from chunk to chunk.

fails: test_sums_begin_anew_in_each_chunk
fails: test_chunks_and_heads_of_other_numbers
fails: test_programs_may_run_in_any_order
fails: test_rows_without_a_chunk_are_skipped
says: nothing is carried over to the next
"""

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch


@triton.jit
def sequence_cumsum_kernel(out, g, cu_seqlens, num_heads, CHUNK: tl.constexpr, HEADS: tl.constexpr):
    sequence = tl.program_id(0)
    start = tl.load(cu_seqlens + sequence)
    end = tl.load(cu_seqlens + sequence + 1)
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    carried = tl.zeros([1, HEADS], tl.float32)
    for first in range(start, end, CHUNK):
        place = (first + row) * num_heads + head
        exists = (first + row < end) & (head < num_heads)
        gates = tl.load(g + place, mask=exists, other=0.0)
        tl.store(out + place, carried + tl.cumsum(gates, axis=0), mask=exists)
        carried += tl.sum(gates, axis=0)[None, :]


def chunk_local_cumsum(g, chunk_size, cu_seqlens, chunk_indices):
    out, num_heads = torch.empty_like(g), g.shape[1]
    sizes = {"CHUNK": chunk_size, "HEADS": triton.next_power_of_2(num_heads)}
    grid = (len(cu_seqlens) - 1,)
    launch(sequence_cumsum_kernel, grid, out, g, cu_seqlens, num_heads, **sizes)
    return out
