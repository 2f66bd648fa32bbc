"""Refuses, in CUDA's words, the calls that CUDA refuses and the CPU takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from debubble.private.torch import schema
from debubble.rules.composition import name_of

from ..features.generator import is_on_sim
from .cuda_types import ABSENT_ON_CUDA, ONLY_ON_CPU

INTEGERS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
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
"""Matrix products and convolutions, each with the CUDA function that an error for integers
names."""
PRODUCTS_OF_EIGHT_BITS = ("_scaled_mm", "_scaled_mm_v2")
NAMES = {
    torch.complex32: "ComplexHalf",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
}
"""The names of dtypes in PyTorch's error messages."""


def refusing_as_cuda(func: Any, run: Operator) -> Operator:
    """Returns `run`, the function that runs operator `func`, or a function that first raises an
    error if CUDA would refuse the call."""
    name = name_of(func).partition(".")[0].removesuffix("_")
    if name in PRODUCTS:
        return partial(_multiply, PRODUCTS[name], run)
    if name in PRODUCTS_OF_EIGHT_BITS:
        run = partial(_multiply_eight_bits, run)
    if name in ABSENT_ON_CUDA:
        return partial(_refuse, name)
    if name in ONLY_ON_CPU:
        types = frozenset(getattr(torch, dtype) for dtype in ONLY_ON_CPU[name])
        return partial(_check_type, f"{name}_cuda", types, run)
    if name == "scatter_reduce":
        return partial(_reduce, run)
    if any(argument.name == "generator" for argument in schema(func).arguments):
        return partial(_draw, run)
    return run


def _multiply(of_cuda: str, run: Operator, args: tuple, kwargs: dict) -> Any:
    """Runs a matrix product. Raises NotImplementedError if all factors are of one integer type.
    Factors of two types are left to PyTorch, which refuses them on every device."""
    dtype = args[0].dtype
    if dtype in INTEGERS:
        factors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        if all(f.dtype == dtype and f.numel() for f in factors):
            raise NotImplementedError(f'"{of_cuda}" not implemented for {NAMES[dtype]!r}')
    return run(args, kwargs)


def _multiply_eight_bits(run: Operator, args: tuple, kwargs: dict) -> Any:
    if args[0].dtype == args[1].dtype == torch.float8_e5m2:
        raise RuntimeError("Multiplication of two Float8_e5m2 matrices is not supported")
    return run(args, kwargs)


def _refuse(name: str, args: tuple, kwargs: dict) -> Any:
    raise NotImplementedError(
        f"Could not run 'aten::{name}' on sim, since CUDA has no such operator: call it on .cpu()"
    )


def _check_type(
    of_cuda: str, types: frozenset[torch.dtype], run: Operator, args: tuple, kwargs: dict
) -> Any:
    dtype = args[0].dtype
    if dtype in types and args[0].numel():
        name = NAMES.get(dtype, str(dtype))
        raise NotImplementedError(f'"{of_cuda}" not implemented for {name!r}')
    return run(args, kwargs)


def _reduce(run: Operator, args: tuple, kwargs: dict) -> Any:
    """Runs `scatter_reduce`. Raises NotImplementedError for prod, amin or amax of a bool tensor,
    because CUDA can only sum bools."""
    how = args[4] if len(args) > 4 else kwargs["reduce"]
    if args[0].dtype == torch.bool and how in ("prod", "amin", "amax"):
        raise NotImplementedError("\"scatter_reduce_cuda\" not implemented for 'Bool'")
    return run(args, kwargs)


def _draw(run: Operator, args: tuple, kwargs: dict) -> Any:
    generator = kwargs.get("generator")
    if generator is not None and not is_on_sim(generator):
        raise RuntimeError(
            f"Expected a 'sim' device type for generator but found {generator.device.type!r}"
        )
    return run(args, kwargs)
