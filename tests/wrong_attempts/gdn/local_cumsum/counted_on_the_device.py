"""Starts a program for each row that is a chunk, and asks the device how many those are.

fails: test_the_device_is_not_asked
says: 1 host sync
says: nor how many rows are one
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
    if sequence < 0:
        return
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
    grid = (int((chunk_indices[:, 0] >= 0).sum()),)
    launch(local_cumsum_kernel, grid, out, g, cu_seqlens, chunk_indices, num_heads, **sizes)
    return out
