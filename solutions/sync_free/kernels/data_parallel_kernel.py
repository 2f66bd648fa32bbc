"""The kernel that starts an exchange between ranks. Its numbers come as arguments: no upload."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(
    # Whatever the numbers of a step are, it is the same compiled kernel.
    do_not_specialize=[
        "rank",
        "size",
        "original_tokens",
        "padded_tokens",
        "should_ubatch",
        "cudagraph_mode",
    ],
)
def own_column_kernel(
    state,  # [4, size] int32, contiguous
    rank,
    size,
    original_tokens,
    padded_tokens,
    should_ubatch,
    cudagraph_mode,
    COLUMNS: tl.constexpr,  # a power of two, at least `size`
):
    """One program writes all of `state`: this rank's column, and zeros in all others."""
    row = tl.arange(0, 4)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    tokens = tl.where(row == 0, original_tokens, padded_tokens)
    own = tl.where(row < 2, tokens, tl.where(row == 2, should_ubatch, cudagraph_mode))
    tl.store(state + row * size + column, tl.where(column == rank, own, 0), mask=column < size)
