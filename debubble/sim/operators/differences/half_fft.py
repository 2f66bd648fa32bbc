"""Fourier transforms of halves, computed in fp32, because PyTorch takes halves only on CUDA."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
NAMES = [f"fft_{kind}{dimensions}" for kind in KINDS for dimensions in ("", "2", "n")]


def install(library: torch.library.Library) -> None:
    for name in NAMES:
        func = getattr(torch.ops.aten, name).default
        for key in ("PrivateUse1", "AutogradPrivateUse1"):
            library.impl(name, partial(_transform, func), key)
            library.impl(f"{name}.out", partial(_transform_into, func), key)


def _transform(func: Any, data: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    if data.dtype != torch.float16:
        return func.decompose(data, *args, **kwargs)
    out = func.decompose(data.float(), *args, **kwargs)
    return out.to(torch.complex32 if out.is_complex() else torch.float16)


def _transform_into(func: Any, *args: Any, out: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    result = _transform(func, *args, **kwargs)
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)
