"""The gated activation of an MLP, with SiLU or GELU."""

from __future__ import annotations

from typing import Literal

import torch
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .shape import FLOATS

TILE = 1024
"""Results that one program computes: a part of a long row, or several short rows."""


Activation = Literal["silu", "gelu_tanh"]
"""The function of the gates: silu is x * sigmoid(x); gelu_tanh is GELU with its error function
approximated by a tanh."""


def silu_and_mul(gate_up: torch.Tensor, activation: Activation = "silu") -> torch.Tensor:
    """Returns silu(gate) * up, or gelu(gate) * up, [T, size], in one launch. Computed in float32.

    `gate_up`: [T, 2 * size], the gates first, contiguous, of bfloat16, float16 or float32. Raises
    ValueError for other tensors.
    """
    _check(gate_up)
    num_rows, size = len(gate_up), gate_up.shape[1] // 2
    output = gate_up.new_empty(num_rows, size)
    block = min(triton.next_power_of_2(size), TILE)
    rows = TILE // block
    launch(
        silu_and_mul_kernel,
        (triton.cdiv(num_rows, rows), triton.cdiv(size, block)),
        output,
        gate_up,
        num_rows,
        SIZE=size,
        GELU=activation == "gelu_tanh",
        ROWS=rows,
        BLOCK=block,
        num_warps=4,
        work=lambda: Work(5.0 * output.numel(), 3 * output.nbytes, tensor_cores=False),
    )
    return output


@triton.jit(
    # One compiled kernel serves any number of tokens.
    do_not_specialize=["num_rows"],
)
def silu_and_mul_kernel(
    output,  # [num_rows, SIZE], contiguous
    gate_up,  # [num_rows, 2 * SIZE], contiguous: gates, then what they let through
    num_rows,
    SIZE: tl.constexpr,
    GELU: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Computes BLOCK columns of ROWS rows of the output in each program."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = (row < num_rows)[:, None] & (column < SIZE)[None, :]
    place = (row * (2 * SIZE))[:, None] + column[None, :]
    gate = tl.load(gate_up + place, mask=exists, other=0.0).to(tl.float32)
    up = tl.load(gate_up + place + SIZE, mask=exists, other=0.0).to(tl.float32)
    opening = gate
    if GELU:
        # (1 + tanh(u)) / 2 is sigmoid(2u), with u = sqrt(2 / pi) * (gate + 0.044715 * gate³).
        opening *= 1.5957691216057308 + 0.07135481282553053 * gate * gate
    result = gate / (1.0 + tl.exp(-opening)) * up
    place = (row * SIZE)[:, None] + column[None, :]
    tl.store(output + place, result.to(output.dtype.element_ty), mask=exists)


def _check(gate_up: torch.Tensor) -> None:
    right = gate_up.dim() == 2 and gate_up.shape[1] % 2 == 0 and gate_up.is_contiguous()
    if not right or gate_up.dtype not in FLOATS:
        raise ValueError(
            f"gate_up is {gate_up.dtype} {list(gate_up.shape)}: make it [T, 2 * size], contiguous, "
            "of bfloat16, float16 or float32"
        )
