"""The kernels that write new tokens into the KV cache: two of them, which differ in one line."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import current

ROWS = 16
"""The tokens that one program of the kernel writes."""


@triton.jit
def specialised_kernel(new, slots, cache, num_tokens, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < num_tokens
    columns = tl.arange(0, WIDTH)
    slot = tl.load(slots + rows, inside, 0)
    values = tl.load(new + rows[:, None] * WIDTH + columns[None, :], inside[:, None])
    tl.store(cache + slot[:, None] * WIDTH + columns[None, :], values, inside[:, None])


store_kernel = triton.jit(specialised_kernel.fn, do_not_specialize=["num_tokens"])
"""The same kernel, compiled once for all numbers of tokens."""


def store_tokens(
    new: torch.Tensor, slots: torch.Tensor, cache: torch.Tensor, kernel: object = store_kernel
) -> None:
    """Writes `new` [T, W] to the rows `slots` [T] of `cache` [S, W]. W is a power of two."""
    num_tokens, width = new.shape
    grid = (-(-num_tokens // ROWS),)
    current().launch(kernel, grid, new, slots, cache, num_tokens, ROWS=ROWS, WIDTH=width)
