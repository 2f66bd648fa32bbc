"""Gradients of operators that sim runs in one piece, and that PyTorch only derives in parts."""

from __future__ import annotations

from typing import Any

import torch

from ..memory.tape import flat_tensors, with_tensors


def differentiable(func: Any, *args: Any, **kwargs: Any) -> Any:
    tensors = flat_tensors([args, list(kwargs.values())])
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _InParts.apply(func, args, kwargs, *tensors)
    with torch._C._AutoDispatchBelowAutograd():
        return func(*args, **kwargs)


class _InParts(torch.autograd.Function):
    """Forwards in one piece; backwards through the parts, which are computed again for that."""

    @staticmethod
    def forward(ctx: Any, func: Any, args: tuple, kwargs: dict, *tensors: torch.Tensor) -> Any:
        ctx.func, ctx.args, ctx.kwargs = func, args, kwargs
        ctx.save_for_backward(*tensors)
        return func(*args, **kwargs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple:
        inputs = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
        in_order = iter(inputs)
        args = with_tensors(ctx.args, in_order)
        values = with_tensors(list(ctx.kwargs.values()), in_order)
        with torch.enable_grad():
            out = ctx.func.decompose(*args, **dict(zip(ctx.kwargs, values, strict=True)))
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        found = iter(torch.autograd.grad(flat_tensors(out), wanted, gradients, allow_unused=True))
        return None, None, None, *(next(found) if t.requires_grad else None for t in inputs)
