"""The kernels: two that write new tokens into the KV cache, which differ in one line, and one that
computes a whole layer."""

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


@triton.jit(do_not_specialize=["num_tokens"])
def layer_kernel(hidden, scale, bias, output, num_tokens, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    places = rows[:, None] * WIDTH + columns[None, :]
    inside = rows[:, None] < num_tokens
    values = tl.load(hidden + places, inside, 0.0)
    values = values * tl.load(scale + columns)[None, :] + tl.load(bias + columns)[None, :]
    tl.store(output + places, tl.maximum(values, 0.0), inside)


def run_layer(hidden: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Returns `relu(hidden * scale + bias)` [T, W] by one kernel. W is a power of two."""
    num_tokens, width = hidden.shape
    output = torch.empty_like(hidden)
    grid = (-(-num_tokens // ROWS),)
    tensors = hidden, scale, bias, output
    current().launch(layer_kernel, grid, *tensors, num_tokens, ROWS=ROWS, WIDTH=width)
    return output


def store_tokens(
    new: torch.Tensor, slots: torch.Tensor, cache: torch.Tensor, kernel: object = store_kernel
) -> None:
    """Writes `new` [T, W] to the rows `slots` [T] of `cache` [S, W]. W is a power of two."""
    num_tokens, width = new.shape
    grid = (-(-num_tokens // ROWS),)
    current().launch(kernel, grid, new, slots, cache, num_tokens, ROWS=ROWS, WIDTH=width)
