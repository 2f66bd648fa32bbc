"""Passes the number of rows as a constant of the kernel.

fails: test_one_kernel_serves_all_numbers_of_rows
says: Expected 4 steps with chunks of one size to launch one kernel. Your code has it
"""


@triton.jit
def counted_kernel(
    out,
    g,
    cu_seqlens,
    chunk_indices,
    num_heads,
    ROWS: tl.constexpr,
    CHUNK: tl.constexpr,
    HEADS: tl.constexpr,
):
    program = tl.program_id(0)
    sequence = tl.load(chunk_indices + 2 * program)
    if sequence < 0:
        return
    chunk = tl.load(chunk_indices + 2 * program + 1)
    first = tl.load(cu_seqlens + sequence) + chunk * CHUNK
    end = tl.load(cu_seqlens + sequence + 1)
    row = tl.arange(0, CHUNK)[:, None]
    head = tl.arange(0, HEADS)[None, :]
    place = (first + row).to(tl.int64) * num_heads + head
    exists = (first + row < end) & (head < num_heads) & (program < ROWS)
    gates = tl.load(g + place, mask=exists, other=0.0)
    tl.store(out + place, tl.cumsum(gates, axis=0), mask=exists)


def chunk_local_cumsum(g, chunk_size, cu_seqlens, chunk_indices):
    out = torch.empty_like(g)
    num_heads = g.shape[1]
    rows = len(chunk_indices)
    heads = triton.next_power_of_2(num_heads)
    arguments = out, g, cu_seqlens, chunk_indices, num_heads
    launch(counted_kernel, (rows,), *arguments, ROWS=rows, CHUNK=chunk_size, HEADS=heads)
    return out
