"""`torch.autocast` on sim: matrix products in lower precision, as on CUDA; the rest as it is."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ..memory.tape import flat_tensors, with_tensors

IN_LOWER_PRECISION = (
    *("addbmm", "addmm", "addmv", "baddbmm", "bmm", "linear", "matmul", "mm", "mv"),
    *("conv1d", "conv2d", "conv3d", "scaled_dot_product_attention"),
)
IN_FP32 = ("softmax.int", "log_softmax.int", "layer_norm", "sum", "prod", "cumsum", "norm.Scalar")
_KEY = "AutocastPrivateUse1"


def install(library: torch.library.Library, fallback: torch.library.Library) -> None:
    fallback.fallback(torch.library.fallthrough_kernel, _KEY)
    for names, lower in ((IN_LOWER_PRECISION, True), (IN_FP32, False)):
        for name in names:
            base, _, overload = name.partition(".")
            func = getattr(getattr(torch.ops.aten, base), overload or "default")
            library.impl(name, partial(_cast, func, lower), _KEY)


def _cast(func: Any, lower: bool, *args: Any, **kwargs: Any) -> Any:
    dtype = torch.get_autocast_dtype("sim") if lower else torch.float32
    tensors = [
        t.to(dtype) if t.is_floating_point() and t.dtype != torch.float64 else t
        for t in flat_tensors([args, list(kwargs.values())])
    ]
    in_order = iter(tensors)
    args = with_tensors(args, in_order)
    values = with_tensors(list(kwargs.values()), in_order)
    with torch.autocast("sim", enabled=False):
        return func(*args, **dict(zip(kwargs, values, strict=True)))
