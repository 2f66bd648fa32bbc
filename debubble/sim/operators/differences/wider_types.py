"""Runs an operator in a wider dtype, then rounds, if CUDA takes the dtype and the CPU doesn't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...memory.tape import flat_tensors
from .cuda_types import ONLY_ON_CUDA

WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.complex32: torch.complex64,
    torch.bool: torch.uint8,
}


def types_to_widen(name: str) -> frozenset[torch.dtype]:
    """Returns the dtypes that the operator `name` takes on CUDA and not on the CPU."""
    names = ONLY_ON_CUDA.get(name.partition(".")[0].removesuffix("_"), ())
    return frozenset(getattr(torch, dtype) for dtype in names)


def in_wider_types(
    func: Callable[..., Any],
    written: Sequence[torch.Tensor],
    returns_written: bool,
    args: list,
    kwargs: dict[str, Any],
) -> Any:
    """Calls `func` with wider copies of its arguments. Copies what it wrote back to `written`, the
    narrow arguments, and returns other results in the narrow dtype."""
    copies: dict[int, torch.Tensor] = {}
    narrow = next(t.dtype for t in flat_tensors([args, *kwargs.values()]) if t.dtype in WIDER)
    wide_args = [_widened(arg, copies) for arg in args]
    wide_kwargs = {name: _widened(value, copies) for name, value in kwargs.items()}
    out = func(*wide_args, **wide_kwargs)
    for tensor in written:
        wide = copies[id(tensor)]
        if tensor.shape != wide.shape:
            tensor.resize_(wide.shape)
        tensor.copy_(wide)
    if returns_written:
        return written[0] if isinstance(out, torch.Tensor) else tuple(written)
    asked_for = kwargs.get("dtype")
    return _narrowed(out, asked_for if asked_for is not None else narrow)


def _widened(value: Any, copies: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.dtype):
        return WIDER.get(value, value)
    if isinstance(value, torch.Tensor):
        if id(value) not in copies:
            copies[id(value)] = value.to(WIDER.get(value.dtype, value.dtype), copy=True)
        return copies[id(value)]
    if isinstance(value, (list, tuple)):
        return type(value)([_widened(item, copies) for item in value])
    return value


def _narrowed(value: Any, narrow: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        if value.dtype == WIDER.get(narrow):
            return value.to(narrow)
        is_part = narrow == torch.complex32 and value.dtype == torch.float32
        return value.half() if is_part else value
    if isinstance(value, (list, tuple)):
        return type(value)([_narrowed(item, narrow) for item in value])
    return value
