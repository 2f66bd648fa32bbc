"""Adds a residual and normalises the sum, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .shape import FLOATS

TILE = 2048
"""Numbers that one program normalises, as several rows if rows are short. A longer row has a
program to itself."""
LARGEST = 32_768
"""The largest size of a row: a program keeps its whole row in registers."""


def add_rms_norm(
    residual: torch.Tensor, update: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """Adds `update` to `residual` in place, and returns residual / sqrt(mean(residual²) + eps) *
    weight over the last dimension, computed in float32. Without an update it only normalises.

    `residual`, `update`: [T, size] of one dtype, `weight`: [size] of that dtype or float32; all
    contiguous. Raises ValueError for other tensors.
    """
    _check(residual, update, weight)
    num_rows, size = residual.shape
    normed = torch.empty_like(residual)
    block = triton.next_power_of_2(size)
    rows = max(1, TILE // block)
    passes = 2 if update is None else 4
    launch(
        add_rms_norm_kernel,
        (triton.cdiv(num_rows, rows),),
        normed,
        residual,
        residual if update is None else update,
        weight,
        eps,
        num_rows,
        SIZE=size,
        HAS_UPDATE=update is not None,
        ROWS=rows,
        BLOCK=block,
        num_warps=16 if block > TILE else 8,
        work=lambda: Work(5.0 * residual.numel(), passes * residual.nbytes, tensor_cores=False),
    )
    return normed


@triton.jit(
    # One compiled kernel serves any number of tokens.
    do_not_specialize=["num_rows"],
)
def add_rms_norm_kernel(
    normed,  # [num_rows, SIZE], contiguous
    residual,  # [num_rows, SIZE], contiguous
    update,  # [num_rows, SIZE], contiguous; not read without HAS_UPDATE
    weight,  # [SIZE]
    eps,
    num_rows,
    SIZE: tl.constexpr,
    HAS_UPDATE: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,  # a power of two, at least SIZE
):
    """Adds the update to ROWS rows of the residual, and normalises them, in each program."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    exists = (row < num_rows)[:, None] & (column < SIZE)[None, :]
    place = (row * SIZE)[:, None] + column[None, :]
    values = tl.load(residual + place, mask=exists, other=0.0).to(tl.float32)
    if HAS_UPDATE:
        values += tl.load(update + place, mask=exists, other=0.0).to(tl.float32)
        tl.store(residual + place, values.to(residual.dtype.element_ty), mask=exists)
    scale = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32)
    mean_square = tl.sum(values * values, 1) / SIZE
    result = values / tl.sqrt(mean_square + eps)[:, None] * scale[None, :]
    tl.store(normed + place, result.to(normed.dtype.element_ty), mask=exists)


def _check(residual: torch.Tensor, update: torch.Tensor | None, weight: torch.Tensor) -> None:
    if residual.dim() != 2 or not residual.is_contiguous() or residual.dtype not in FLOATS:
        raise ValueError(
            f"residual is {residual.dtype} {list(residual.shape)}: make it [T, size], contiguous, "
            "of bfloat16, float16 or float32"
        )
    size = residual.shape[1]
    if not 1 <= size <= LARGEST:
        raise ValueError(f"rows of {size} numbers: this kernel holds 1 to {LARGEST}")
    for name, tensor, shape in (("update", update, residual.shape), ("weight", weight, (size,))):
        if tensor is None:
            continue
        dtypes = {residual.dtype, torch.float32} if name == "weight" else {residual.dtype}
        if tensor.shape != shape or tensor.dtype not in dtypes or not tensor.is_contiguous():
            raise ValueError(
                f"{name} is {tensor.dtype} {list(tensor.shape)}: for this residual make it "
                f"{residual.dtype} {list(shape)}, contiguous"
            )
