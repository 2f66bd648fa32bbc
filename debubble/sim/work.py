"""How many floating point operations an operator does, and who does them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

Flops = Callable[[tuple], float]


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


def flops_of(name: str, args: tuple) -> float:
    count = MATRIX_PRODUCTS.get(name)
    return count(args) if count else 0.0


def unit_of(name: str) -> str:
    return "library" if name in MATRIX_PRODUCTS else "vector"
