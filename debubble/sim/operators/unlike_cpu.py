"""Where it isn't enough to run the CPU's operator on the data: what CUDA refuses and the CPU takes,
and what sim computes by other means."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from debubble.rules.composition import name_of

from .generator import is_on_sim

Operator = Callable[[tuple, dict], Any]

PRODUCTS = {
    "mm": "addmm_cuda",
    "addmm": "addmm_cuda",
    "bmm": "baddbmm_cuda",
    "baddbmm": "baddbmm_cuda",
    "mv": "addmv_impl_cuda",
    "addmv": "addmv_impl_cuda",
    "dot": "dot",
    "vdot": "vdot",
}
"""Matrix products, with the name of the function on CUDA that takes no integers."""
NAMES = {
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
}
"""Of the types that such a function doesn't take, as PyTorch spells them."""


def refusing_as_cuda(func: Any, run: Operator) -> Operator:
    """The operator, or one that first looks for what CUDA would refuse."""
    of_cuda = PRODUCTS.get(name_of(func).partition(".")[0].removesuffix("_"))
    if of_cuda is not None:
        return partial(_multiply, of_cuda, run)
    if any(argument.name == "generator" for argument in func._schema.arguments):
        return partial(_draw, run)
    return run


def _multiply(of_cuda: str, run: Operator, args: tuple, kwargs: dict) -> Any:
    """Factors of two types are left to PyTorch, which refuses them everywhere."""
    factors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    name = NAMES.get(factors[0].dtype)
    if name and all(f.dtype == factors[0].dtype and f.numel() for f in factors):
        raise NotImplementedError(f'"{of_cuda}" not implemented for {name!r}')
    return run(args, kwargs)


def _draw(run: Operator, args: tuple, kwargs: dict) -> Any:
    generator = kwargs.get("generator")
    if generator is not None and not is_on_sim(generator):
        raise RuntimeError(
            f"Expected a 'sim' device type for generator but found {generator.device.type!r}"
        )
    return run(args, kwargs)


def histc(data: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """Also of integers, for which CUDA computes the bin in integers."""
    if data.is_floating_point():
        return torch.ops.aten.histc.default(data, bins, min, max)
    low, high = int(min), int(max)
    if low == high and data.numel():
        low, high = int(data.min()), int(data.max())
    if low == high:
        low, high = low - 1, high + 1
    inside = data[(data >= low) & (data <= high)].long()
    bin_of = ((inside - low) * bins // (high - low)).clamp_(max=bins - 1)
    return torch.bincount(bin_of, minlength=bins).to(data.dtype)


LEAVES_OUT = {
    "linalg_matrix_rank.out": "default",
    "linalg_matrix_rank.out_tol_tensor": "tol_tensor",
    "linalg_matrix_rank.atol_rtol_float_out": "atol_rtol_float",
    "linalg_matrix_rank.atol_rtol_tensor_out": "atol_rtol_tensor",
}
"""Operators that leave `out` as it was if it is of a class of tensors' own, as on sim, with the
overload whose result belongs there."""


def writing_out(func: Any) -> Operator:
    """For an operator of LEAVES_OUT: computes the result, and copies it."""
    without_out = getattr(func.overloadpacket, LEAVES_OUT[name_of(func)])

    def run(args: tuple, kwargs: dict) -> torch.Tensor:
        out = kwargs["out"]
        result = without_out(*args, **{k: v for k, v in kwargs.items() if k != "out"})
        if out.shape != result.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    return run


ON_CPU: dict[str, Callable[..., Any]] = {"histc": histc}
"""What computes an operator on the CPU data, where PyTorch's own refuses what CUDA takes."""
