"""Masks the tail of the batch, and not that of each sequence. On a GPU it is a matter of luck which
program writes last.

fails: test_programs_may_run_in_any_order
says: Did a program write beyond its chunk?
on: sim
"""

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch


@triton.jit
def local_cumsum_kernel(
    out,
    g,
    cu_seqlens,
    chunk_indices,
    num_tokens,
    num_heads,
    CHUNK: tl.constexpr,
    HEADS: tl.constexpr,
):
    program = tl.program_id(0)
    sequence = tl.load(chunk_indices + 2 * program)
    chunk = tl.load(chunk_indices + 2 * program + 1)
    if sequence < 0:
        return
    first = tl.load(cu_seqlens + sequence) + chunk * CHUNK
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    place = (first + row) * num_heads + head
    exists = (first + row < num_tokens) & (head < num_heads)
    gates = tl.load(g + place, mask=exists, other=0.0)
    tl.store(out + place, tl.cumsum(gates, axis=0), mask=exists)


def chunk_local_cumsum(g, chunk_size, cu_seqlens, chunk_indices):
    out, num_heads = torch.empty_like(g), g.shape[1]
    sizes = {"CHUNK": chunk_size, "HEADS": triton.next_power_of_2(num_heads)}
    tables = cu_seqlens, chunk_indices
    launch(local_cumsum_kernel, (len(chunk_indices),), out, g, *tables, len(g), num_heads, **sizes)
    return out
