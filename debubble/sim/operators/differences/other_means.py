"""Operators for which sim doesn't simply run the CPU's operator on the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from debubble.private.torch import schema
from debubble.rules.composition import name_of

from ...memory.tape import flat_tensors

aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)
INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}


def histc(data: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:
    """Returns the histogram of `data`, [bins]. Takes integers too, as CUDA does, and computes their
    bins in integers."""
    if data.dtype not in INTEGERS:
        return aten.histc.default(data, bins, min, max)
    aten.histc.default(torch.empty(0), bins, min, max)  # raises an error for invalid limits
    low, high = int(min), int(max)
    if low == high and data.numel():
        low, high = int(data.min()), int(data.max())
    if low == high:
        low, high = low - 1, high + 1
    numbers = data.long()
    inside = numbers[(numbers >= low) & (numbers <= high)]
    bin_of = ((inside - low) * bins // (high - low)).clamp_(max=bins - 1)
    return torch.bincount(bin_of, minlength=bins).to(data.dtype)


def histc_out(
    data: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: torch.Tensor
) -> torch.Tensor:
    if data.dtype not in INTEGERS:
        return aten.histc.out(data, bins, min, max, out=out)
    return out.resize_(bins).copy_(histc(data, bins, min, max))


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any
) -> torch.Tensor:
    """Computes attention with the CPU's operator, and returns it in the memory layout of CUDA's
    fused kernels, rows before heads."""
    out = aten.scaled_dot_product_attention.default(query, key, value, *args, **kwargs)
    return out.transpose(1, 2).contiguous().transpose(1, 2)


def zeros_without_memory(size: list[int], **options: Any) -> torch.Tensor:
    """Returns zeros with memory, where forward derivatives make zero tensors without: the CPU's
    operators would read address 0."""
    return torch.zeros(size, **options)


def in_float32(func: Any, rounded: int | None = None) -> Callable[..., Any]:
    """Returns a version of `func` that computes halves in fp32, and rounds its first `rounded`
    results to halves once, by default all. CUDA's kernels do so, while the CPU's sum in halves."""

    def compute(*args: Any) -> Any:
        dtype = args[0].dtype
        if dtype not in HALVES:
            return func(*args)
        wide = [a.float() if isinstance(a, torch.Tensor) and a.dtype == dtype else a for a in args]
        out = func(*wide)
        if isinstance(out, torch.Tensor):
            return out.to(dtype)
        some = out[:rounded]
        return (*(part if part is None else part.to(dtype) for part in some), *out[len(some) :])

    return compute


ON_CPU: dict[str, Callable[..., Any]] = {
    "_efficientzerotensor": zeros_without_memory,
    "embedding_dense_backward": in_float32(aten.embedding_dense_backward.default),
    "native_layer_norm": in_float32(aten.native_layer_norm.default, rounded=1),
    "native_layer_norm_backward": in_float32(aten.native_layer_norm_backward.default),
    "histc": histc,
    "histc.out": histc_out,
    "scaled_dot_product_attention": attention,
}
"""The functions that sim runs in place of PyTorch's own CPU operators, by operator."""
LEAVES_OUT = {
    "linalg_matrix_rank.out": "default",
    "linalg_matrix_rank.out_tol_tensor": "tol_tensor",
    "linalg_matrix_rank.atol_rtol_float_out": "atol_rtol_float",
    "linalg_matrix_rank.atol_rtol_tensor_out": "atol_rtol_tensor",
    "matmul.out": "default",
    "mode.values": "default",
    "_native_batch_norm_legit.out": "default",
}
"""Operators that mishandle an `out` of a tensor subclass, such as SimTensor: they don't write to
it, refuse it, or end the process. Each has the overload whose result is to be copied to `out`."""


def writing_out(func: Any) -> Callable[[tuple, dict], Any]:
    """Returns a function that runs an operator of LEAVES_OUT without `out=`, and copies its results
    to the given `out`."""
    without_out = getattr(func.overloadpacket, LEAVES_OUT[name_of(func)])
    names = [
        argument.name
        for argument in schema(func).arguments
        if argument.kwarg_only and argument.alias_info is not None
    ]

    def run(args: tuple, kwargs: dict) -> Any:
        results = flat_tensors(without_out(*args, **_without(kwargs, names)))
        given = [kwargs[name] for name in names]
        for out, result in zip(given, results, strict=True):
            if out.shape != result.shape:
                out.resize_(result.shape)
            out.copy_(result)
        return given[0] if len(given) == 1 else tuple(given)

    return run


def _without(kwargs: dict, names: list[str]) -> dict:
    return {name: value for name, value in kwargs.items() if name not in names}
