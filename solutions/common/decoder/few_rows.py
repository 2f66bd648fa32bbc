"""Products of few tokens with a large weight: they take the time that reading the weight takes."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from debubble.accelerator import Work, launch

from .silu_and_mul import silu_and_mul

MOST_ROWS = 16
"""The most tokens that `few_rows_linear` takes: the shorter side of one product on the tensor
cores."""
LARGE = 1 << 23
"""Bytes of a weight from which on `linear` uses `few_rows_linear`: a GPU spends the time on reading
such a weight, and not on the launch."""
ROWS, COLUMNS = 32, 128
"""The smallest tile: weights are a multiple of it on both sides."""
HALVES = (torch.bfloat16, torch.float16)


class WeightTile(NamedTuple):
    """A program's share of a weight, and how it reads it."""

    rows: int
    columns: int
    """The program reads a tile of rows * columns at once."""
    stages: int
    """Reads in flight."""
    warps: int


SMALLEST = WeightTile(ROWS, COLUMNS, 6, 2)
LARGER, MANY_ROWS = WeightTile(64, 128, 6, 4), WeightTile(64, 128, 4, 4)
"""LARGER reads the weights of a layer of Llama-3-8B in 118 µs on an H200, SMALLEST in 126.
MANY_ROWS leaves room for more programs at once, if there are more."""
MANY = 16_384
"""Rows from which on MANY_ROWS is faster than LARGER."""
FEWEST = 3072
"""Rows below which `linear` leaves a product to PyTorch, which divides the columns too: a program
for each 64 rows would not fill a GPU."""


def linear(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Returns [T, rows]: `inputs` [T, columns] times the transpose of `weight` [rows, columns].

    Up to MOST_ROWS tokens with a weight of at least LARGE bytes and FEWEST rows use
    `few_rows_linear`, which reads the weight faster than PyTorch's product does; all other products
    use PyTorch's.
    """
    return few_rows_linear(inputs, weight) if _fits(inputs, weight) else F.linear(inputs, weight)


def gated_linear(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Returns silu(gate) * up, [T, size]: the halves of `linear(inputs, weight)`, with `weight`
    [2 * size, columns]. For few tokens with a large weight it is one launch."""
    if _fits(inputs, weight) and len(weight) % (2 * ROWS) == 0:
        return few_rows_linear(inputs, weight, gates=True)
    return silu_and_mul(linear(inputs, weight))


def tile_of(weight: torch.Tensor) -> WeightTile:
    """Returns the tile in which `few_rows_linear` reads a weight [rows, columns]."""
    rows, columns = weight.shape
    tile = MANY_ROWS if rows >= MANY else LARGER
    return SMALLEST if rows % tile.rows or columns % tile.columns else tile


def few_rows_linear(
    inputs: torch.Tensor, weight: torch.Tensor, *, gates: bool = False
) -> torch.Tensor:
    """Returns [T, rows], `inputs` times the transpose of `weight`, in one launch. Sums in float32,
    in the same order for every T. With `gates`, returns silu(gate) * up, [T, rows / 2]: the first
    half of the rows of `weight` are the gates.

    `inputs`: [T, columns], T of 1 to MOST_ROWS; `weight`: [rows, columns], rows and columns
    multiples of ROWS and COLUMNS. Both contiguous, of bfloat16 or float16. Raises ValueError for
    other tensors.
    """
    if (refused := _refused(inputs, weight)) is not None:
        raise ValueError(refused)
    (num_tokens, columns), rows = inputs.shape, len(weight)
    output = inputs.new_empty(num_tokens, rows // 2 if gates else rows)
    work = lambda: Work(
        2.0 * num_tokens * weight.numel(), inputs.nbytes + weight.nbytes + output.nbytes
    )
    if triton.knobs.runtime.interpret and weight.nbytes >= LARGE:
        # Triton's interpreter would take seconds.
        launch(few_rows_in_pytorch, None, output, inputs, weight, gates, work=work)
        return output
    tile = tile_of(weight)
    launch(
        few_rows_kernel,
        (rows // tile.rows,),
        output,
        inputs,
        weight,
        num_tokens,
        rows,
        columns,
        TOKENS=MOST_ROWS,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        GATES=gates,
        UPCAST=triton.knobs.runtime.interpret,
        num_stages=tile.stages,
        num_warps=tile.warps,
        work=work,
    )
    return output


@triton.jit(
    # One compiled kernel serves any number of tokens.
    do_not_specialize=["num_tokens"],
)
def few_rows_kernel(
    output,  # [num_tokens, rows], contiguous; half as many columns with GATES
    inputs,  # [num_tokens, columns], contiguous
    weight,  # [rows, columns], contiguous
    num_tokens,
    rows,
    columns,
    TOKENS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    GATES: tl.constexpr,
    UPCAST: tl.constexpr,  # the interpreter's tl.dot mistakes bfloat16 for integers
):
    """Multiplies all tokens by ROWS rows of the weight, in each program. With GATES half of these
    are gates, and half are the rows that they let through."""
    HALF: tl.constexpr = ROWS // 2
    token = tl.arange(0, TOKENS)
    tile = tl.arange(0, ROWS)
    row = tl.program_id(0) * ROWS + tile
    if GATES:
        row = tl.program_id(0) * HALF + tile % HALF + tile // HALF * (rows // 2)
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
    if GATES:
        halves = tl.permute(tl.reshape(total, (2, HALF, TOKENS)), (1, 2, 0))
        gate, up = tl.split(halves)
        result = (gate / (1.0 + tl.exp(-gate)) * up).to(output.dtype.element_ty)
        half = tl.program_id(0) * HALF + tl.arange(0, HALF)
        place = token[None, :] * (rows // 2) + half[:, None]
        tl.store(output + place, result, mask=exists[None, :])
    else:
        place = token[None, :] * rows + row[:, None]
        tl.store(output + place, total.to(output.dtype.element_ty), mask=exists[None, :])


def few_rows_in_pytorch(
    output: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor, gates: bool
) -> None:
    """Writes to `output` what few_rows_kernel writes."""
    result = F.linear(inputs, weight)
    if gates:
        gate, up = result.float().chunk(2, dim=1)
        result = F.silu(gate) * up
    output.copy_(result)


def _fits(inputs: torch.Tensor, weight: torch.Tensor) -> bool:
    is_large = weight.nbytes >= LARGE and len(weight) >= FEWEST
    return is_large and inputs.device.type != "cpu" and _refused(inputs, weight) is None


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
