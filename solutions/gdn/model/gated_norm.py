"""The last step of a Gated DeltaNet layer's heads: their output is normalised and multiplied by a
gate."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch
from solutions.common.decoder.shape import FLOATS

from ..rule.arguments import is_dense


@triton.jit(
    # One compiled kernel serves any number of tokens.
    do_not_specialize=["num_rows"],
)
def gated_norm_kernel(
    output,  # [num_tokens, HEADS, SIZE], contiguous
    x,  # [num_tokens, HEADS, SIZE], the heads of a token contiguous
    z,  # [num_tokens, HEADS, SIZE], likewise
    weight,  # [SIZE]
    eps,
    num_rows,  # num_tokens * HEADS
    x_stride,
    z_stride,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,  # a power of two, at least SIZE
):
    """Normalises and gates ROWS heads, of one token or of several."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    token = row // HEADS
    head = row % HEADS * SIZE
    exists = (row < num_rows)[:, None] & (column < SIZE)[None, :]
    place = (token * x_stride + head)[:, None] + column[None, :]
    values = tl.load(x + place, mask=exists, other=0.0).to(tl.float32)
    place = (token * z_stride + head)[:, None] + column[None, :]
    gate = tl.load(z + place, mask=exists, other=0.0).to(tl.float32)
    scale = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32)
    mean_square = tl.sum(values * values, 1) / SIZE
    normed = values / tl.sqrt(mean_square + eps)[:, None] * scale[None, :]
    result = normed * gate / (1.0 + tl.exp(-gate))
    place = (row * SIZE)[:, None] + column[None, :]
    tl.store(output + place, result.to(output.dtype.element_ty), mask=exists)


TILE = 2048
"""Target of how many numbers one program computes: a few rows, so that it has enough to load at
once."""


def gated_rms_norm(
    x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """Computes x / sqrt(mean(x²) + eps) * weight * silu(z) over the last dimension in float32, in
    one launch (vLLM #38361). Returns the shape and dtype of `x`.

    `x` and `z`: [num_tokens, num_heads, size], the heads of a token contiguous; `weight`: [size],
    contiguous; each of bfloat16, float16 or float32. Raises ValueError for other tensors.
    """
    _check(x, z, weight)
    num_tokens, num_heads, size = x.shape
    output = torch.empty_like(x, memory_format=torch.contiguous_format)
    block = triton.next_power_of_2(size)
    rows = max(1, TILE // block)
    num_rows = num_tokens * num_heads
    launch(
        gated_norm_kernel,
        (triton.cdiv(num_rows, rows),),
        output,
        x,
        z,
        weight,
        eps,
        num_rows,
        x.stride(0),
        z.stride(0),
        HEADS=num_heads,
        SIZE=size,
        ROWS=rows,
        BLOCK=block,
        num_warps=4,
        work=lambda: Work(12.0 * x.numel(), 2 * x.nbytes + z.nbytes, tensor_cores=False),
    )
    return output


def _check(x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor) -> None:
    if x.dim() != 3 or z.shape != x.shape:
        raise ValueError(
            f"x of shape {list(x.shape)} and z of {list(z.shape)}: make both "
            "[num_tokens, num_heads, size]"
        )
    size = x.shape[2]
    if not 1 <= size <= 4096:
        raise ValueError(f"rows of {size} numbers: this kernel holds 1 to 4096 in its registers")
    if weight.shape != (size,) or not weight.is_contiguous():
        raise ValueError(
            f"a weight of shape {list(weight.shape)} for rows of {size}: make it [{size}], "
            "contiguous"
        )
    for name, tensor in (("x", x), ("z", z), ("weight", weight)):
        if tensor.dtype not in FLOATS:
            raise ValueError(f"{name} of {tensor.dtype}: use bfloat16, float16 or float32")
    for name, tensor in (("x", x), ("z", z)):
        if not is_dense(tensor, first_dimension=1):
            raise ValueError(
                f"{name} of strides {tensor.stride()}: the heads of a token must be contiguous"
            )
