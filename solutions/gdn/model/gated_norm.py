"""What leaves a Gated DeltaNet's heads: normalised, and let through by a gate of its own."""

from __future__ import annotations

import torch
import triton

from debubble.accelerator import Work, launch
from solutions.common.floats import FLOATS

from ..rule.strides import is_dense
from .gated_norm_kernel import gated_norm_kernel

TILE = 2048
"""Numbers of one program: a few rows, so that it has enough to load at once."""


def gated_rms_norm(
    x: torch.Tensor, z: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight * silu(z) over the last dimension, like `x`, in one launch
    (vLLM #38361). Computed in float32.

    `x` and `z`: [num_tokens, num_heads, size], the heads of a token contiguous; `weight`: [size],
    contiguous; each of bfloat16, float16 or float32. ValueError for others.
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
