"""Reads the table on the host, and launches each of its chunks by itself.

fails: test_the_device_is_not_asked
fails: test_all_chunks_share_one_launch
says: One launch of many programs fills it
"""

import torch
import triton
import triton.language as tl

from debubble.accelerator import launch


@triton.jit
def local_cumsum_kernel(
    out, g, cu_seqlens, sequence, chunk, num_heads, CHUNK: tl.constexpr, HEADS: tl.constexpr
):
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
    for row in chunk_indices.tolist():
        if row[0] >= 0:
            launch(local_cumsum_kernel, (1,), out, g, cu_seqlens, *row, num_heads, **sizes)
    return out
