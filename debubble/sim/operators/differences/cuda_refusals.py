"""What CUDA refuses and the CPU takes: sim refuses it too, in CUDA's words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from debubble.rules.composition import name_of

from ..features.generator import is_on_sim

Operator = Callable[[tuple, dict], Any]

PRODUCTS = {
    "mm": "addmm_cuda",
    "addmm": "addmm_cuda",
    "bmm": "baddbmm_cuda",
    "baddbmm": "baddbmm_cuda",
    "addbmm": "addmm_cuda",
    "mv": "addmv_impl_cuda",
    "addmv": "addmv_impl_cuda",
    "dot": "dot",
    "vdot": "vdot",
    "convolution": "slow_conv2d_cuda",
}
"""Matrix products and convolutions, with the name of the function on CUDA that refuses integers."""
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
