"""Counts an operator's floating point operations, and names the unit of the GPU that runs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from debubble.clock.action import Action

Flops = Callable[[Sequence], float]


def _product(a: torch.Tensor, b: torch.Tensor) -> float:
    return 2.0 * math.prod(a.shape) * b.shape[-1]


MATRIX_PRODUCTS: dict[str, Flops] = {
    "mm": lambda args: _product(args[0], args[1]),
    "mm.out": lambda args: _product(args[0], args[1]),
    "bmm": lambda args: _product(args[0], args[1]),
    "addmm": lambda args: _product(args[1], args[2]),
    "addmv": lambda args: 2.0 * args[1].numel(),
    "mv": lambda args: 2.0 * args[0].numel(),
    "baddbmm": lambda args: _product(args[1], args[2]),
    "convolution": lambda args: 2.0 * args[0].numel() * args[1].numel() / args[1].shape[1],
}


HALVES = (torch.float16, torch.bfloat16)


def matrix_product(name: str, nbytes: float, args: Sequence, us: float | None) -> Action:
    """Returns the kernel of a matrix product in MATRIX_PRODUCTS, with its floating point
    operations, and its `us` microseconds if they are known. It runs on tensor cores if the factors
    are halves."""
    tensor_cores = args[1].dtype in HALVES
    flops = MATRIX_PRODUCTS[name](args)
    return Action("kernel", name, nbytes, flops, "library", tensor_cores, microseconds=us)


def unit_of(name: str) -> str:
    return "library" if name in MATRIX_PRODUCTS else "vector"
