"""Products of few tokens with a large weight: they take the time that reading the weight takes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

MOST_ROWS = 16
"""The most tokens that `few_rows_linear` takes: the shorter side of one product on the tensor
cores."""
LARGE = 1 << 23
"""Bytes of a weight from which on `linear` uses `few_rows_linear`: a GPU spends the time on reading
such a weight, and not on the launch."""
ROWS, COLUMNS = 32, 128
"""The tile of the weight that a program reads at once."""
STAGES, WARPS = 6, 2
"""Reads in flight, and warps of a program: many small programs, each with many reads in flight."""
HALVES = (torch.bfloat16, torch.float16)


def linear(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Returns [T, rows]: `inputs` [T, columns] times the transpose of `weight` [rows, columns].

    On a GPU, up to MOST_ROWS tokens with a weight of at least LARGE bytes use `few_rows_linear`,
    which reads the weight faster than PyTorch's product does; all other products use PyTorch's.
    """
    if inputs.is_cuda and weight.nbytes >= LARGE and _refused(inputs, weight) is None:
        return few_rows_linear(inputs, weight)
    return F.linear(inputs, weight)


def few_rows_linear(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Returns [T, rows], `inputs` times the transpose of `weight`, in one launch. Sums in float32,
    in the same order for every T.

    `inputs`: [T, columns], T of 1 to MOST_ROWS; `weight`: [rows, columns], rows and columns
    multiples of ROWS and COLUMNS. Both contiguous, of bfloat16 or float16. Raises ValueError for
    other tensors.
    """
    if (refused := _refused(inputs, weight)) is not None:
        raise ValueError(refused)
    (num_tokens, columns), rows = inputs.shape, len(weight)
    output = inputs.new_empty(num_tokens, rows)
    launch(
        few_rows_kernel,
        (rows // ROWS,),
        output,
        inputs,
        weight,
        num_tokens,
        rows,
        columns,
        TOKENS=MOST_ROWS,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        UPCAST=triton.knobs.runtime.interpret,
        num_stages=STAGES,
        num_warps=WARPS,
        work=lambda: Work(
            2.0 * num_tokens * weight.numel(), inputs.nbytes + weight.nbytes + output.nbytes
        ),
    )
    return output


@triton.jit(
    # One compiled kernel serves any number of tokens.
    do_not_specialize=["num_tokens"],
)
def few_rows_kernel(
    output,  # [num_tokens, rows], contiguous
    inputs,  # [num_tokens, columns], contiguous
    weight,  # [rows, columns], contiguous
    num_tokens,
    rows,
    columns,
    TOKENS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    UPCAST: tl.constexpr,  # the interpreter's tl.dot mistakes bfloat16 for integers
):
    """Multiplies all tokens by ROWS rows of the weight, in each program."""
    token = tl.arange(0, TOKENS)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    exists = token < num_tokens
    of_weight = weight + row.to(tl.int64)[:, None] * columns + column[None, :]
    of_inputs = inputs + token[None, :] * columns + column[:, None]
    total = tl.zeros((ROWS, TOKENS), tl.float32)
    for start in range(0, columns, COLUMNS):
        # A step reads each weight only once: evict it first, so that the inputs stay in the cache.
        part = tl.load(of_weight + start, eviction_policy="evict_first")
        tokens = tl.load(of_inputs + start, mask=exists[None, :], other=0.0)
        if UPCAST:
            part, tokens = part.to(tl.float32), tokens.to(tl.float32)
        total = tl.dot(part, tokens, total)
    place = token[None, :] * rows + row[:, None]
    tl.store(output + place, total.to(output.dtype.element_ty), mask=exists[None, :])


def _refused(inputs: torch.Tensor, weight: torch.Tensor) -> str | None:
    """Returns the reason why `few_rows_linear` can't take these two, or None."""
    if inputs.dtype not in HALVES or inputs.dtype != weight.dtype:
        return (
            f"inputs are {inputs.dtype} and weight is {weight.dtype}: make both bfloat16, or both "
            "float16"
        )
    for name, tensor in (("inputs", inputs), ("weight", weight)):
        if tensor.dim() != 2 or not tensor.is_contiguous():
            return f"{name} has shape {list(tensor.shape)}: make it contiguous, with two dimensions"
    if not 1 <= len(inputs) <= MOST_ROWS:
        return f"{len(inputs)} tokens: give 1 to {MOST_ROWS}"
    if inputs.shape[1] != weight.shape[1]:
        return f"inputs have {inputs.shape[1]} columns and weight {weight.shape[1]}: make them one"
    rows, columns = weight.shape
    if rows % ROWS or columns % COLUMNS:
        return (
            f"a weight of {rows} x {columns}: make its rows a multiple of {ROWS}, and its columns "
            f"of {COLUMNS}"
        )
    return None
