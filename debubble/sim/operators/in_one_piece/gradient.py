"""Gradients of operators that CUDA runs in one piece, and that PyTorch only derives in parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import accumulate
from typing import Any

import torch

from debubble.clock.action import Action
from debubble.private import torch as private
from debubble.rules.composition import name_of
from debubble.rules.gradients import effects_of_gradient

from ...clock.device import SimDevice
from ...memory.tape import flat_tensors, with_tensors
from ...tensor import SimTensor
from ..differences.wider_types import WIDER, types_to_widen
from ..dispatch import Dispatcher
from ..execution import Operation, execute
from ..host_watch import modes_are_on


def product(data: torch.Tensor, *dim: int, **options: Any) -> torch.Tensor:
    """Computes `prod` as multiplications one after the other, for which PyTorch derives
    gradients."""
    rest = dict(zip(("dim", "keepdim"), dim, strict=False)) | options
    data = data if rest.get("dtype") is None else data.to(rest["dtype"])
    if "dim" not in rest:
        return reduce(torch.mul, data.flatten().unbind(), data.new_ones(()))
    factors = data.unbind(rest["dim"])
    out = reduce(torch.mul, factors)
    return out.unsqueeze(rest["dim"]) if rest.get("keepdim") else out


def running_product(data: torch.Tensor, dim: int, dtype: Any = None) -> torch.Tensor:
    data = data if dtype is None else data.to(dtype)
    return data if data.dim() == 0 else torch.stack([*accumulate(data.unbind(dim), torch.mul)], dim)


ANSWERED_BY_THE_HOST: dict[str, Callable[..., torch.Tensor]] = {
    "prod": product,
    "prod.dim_int": product,
    "cumprod": running_product,
}
"""Operators whose gradients wait on CUDA to find out whether a factor is 0, each with a function
that computes it by other operators. (For tensor subclasses PyTorch derives them in another way,
which doesn't wait.)"""


def differentiable(dispatcher: Dispatcher, func: Any, *args: Any, **kwargs: Any) -> Any:
    if torch.is_grad_enabled():
        tensors = flat_tensors([args, list(kwargs.values())])
        if any(tensor.requires_grad for tensor in tensors):
            return _InOnePiece.apply(dispatcher, func, args, kwargs, *tensors)
    with private.AutoDispatchBelowAutograd():
        if modes_are_on():
            return func(*args, **kwargs)  # PyTorch passes it to the active modes.
        return dispatcher(func, args, kwargs)


class _InOnePiece(torch.autograd.Function):
    """An operator whose forward and backward pass each count as one piece of work. A second
    derivative goes through the operators that it is composed of."""

    @staticmethod
    def forward(
        ctx: Any,
        dispatcher: Dispatcher,
        func: Any,
        args: tuple,
        kwargs: dict,
        *tensors: torch.Tensor,
    ) -> Any:
        ctx.device, ctx.func, ctx.args, ctx.kwargs = dispatcher.device, func, args, kwargs
        ctx.aside = dispatcher.aside
        ctx.random_state = torch.get_rng_state() if _draws(func, args, kwargs) else None
        ctx.save_for_backward(*tensors)
        return differentiable(dispatcher, func, *args, **kwargs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple:
        return ctx.aside(_backward)(ctx, *gradients)


def _backward(ctx: Any, *gradients: torch.Tensor) -> tuple:
    inputs = ctx.saved_tensors
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found: Sequence[torch.Tensor | None]
    if torch.is_grad_enabled():
        out = flat_tensors(_with_inputs(ctx, _parts_of(ctx.func), inputs))
        found = torch.autograd.grad(out, wanted, gradients, allow_unused=True, create_graph=True)
    else:
        found = _compute(ctx, inputs, gradients)
    in_order = iter(found)
    of_inputs = (next(in_order) if t.requires_grad else None for t in inputs)
    return None, None, None, None, *of_inputs


def _parts_of(func: Any) -> Callable[..., Any]:
    return ANSWERED_BY_THE_HOST.get(name_of(func)) or func.decompose


def _draws(func: Any, args: tuple, kwargs: dict) -> bool:
    """Returns True if the call uses dropout: its gradient then has to drop the same elements."""
    return any(
        (args[position] if position < len(args) else kwargs.get(argument.name)) not in (None, 0.0)
        for position, argument in enumerate(private.schema(func).arguments)
        if argument.name in ("dropout_p", "dropout")
    )


def _with_inputs(ctx: Any, call: Callable[..., Any], inputs: Any) -> Any:
    in_order = iter(inputs)
    args = with_tensors(ctx.args, in_order)
    values = with_tensors(list(ctx.kwargs.values()), in_order)
    with torch.enable_grad():
        return call(*args, **dict(zip(ctx.kwargs, values, strict=True)))


def _compute(ctx: Any, inputs: Any, gradients: tuple) -> list[torch.Tensor | None]:
    """Computes the gradients of an operator as one operation on the CPU data. Returns a list with
    one item for each input that requires a gradient: the gradient, or None if there is none."""
    device: SimDevice = ctx.device
    wanted = [tensor.requires_grad for tensor in inputs]
    data = [_data_of(tensor) for tensor in inputs]
    towards = [None if g is None else _data_of(g) for g in gradients]
    name = f"{name_of(ctx.func)}_backward"
    effects = effects_of_gradient(name_of(ctx.func), ctx.args, ctx.kwargs)

    def actions(out: Any) -> list[Action]:
        moved = sum(tensor.nbytes for tensor in (*data, *flat_tensors(out)))
        us = device.cost.measured_us(name, [*data, *ctx.args], flat_tensors(out), moved)
        return effects.actions(Action("kernel", name, moved, microseconds=us))

    call = partial(_unseen, _gradients, ctx, data, wanted, towards)
    reads = [t for t in (*inputs, *gradients) if isinstance(t, SimTensor)]
    operation = Operation(call, actions, reads, makes_memory=True, waits=bool(effects.reads))
    device.check(name, effects.actions(Action("kernel", name)))
    with device.lock:
        found = execute(device, operation)
        return [None if t is None else device.made(SimTensor(t)) for t in found]


def _unseen(call: Callable[..., Any], *args: Any) -> Any:
    """Calls `call` with PyTorch's modes off, so that they don't take its CPU work for the user's,
    and returns its result."""
    if not private.len_torch_dispatch_stack():
        return call(*args)
    with private.disable_current_modes():
        return call(*args)


def _gradients(ctx: Any, data: list, wanted: list[bool], towards: list) -> list:
    narrow = types_to_widen(name_of(ctx.func))
    if any(t.dtype in narrow for t in data):
        wide = [
            [t if t is None else t.to(WIDER[t.dtype]) for t in those] for those in (data, towards)
        ]
        found = _gradients_of(ctx, wide[0], wanted, wide[1])
        kinds = (t.dtype for t, w in zip(data, wanted, strict=True) if w)
        return [t if t is None else t.to(kind) for t, kind in zip(found, kinds, strict=True)]
    return _gradients_of(ctx, data, wanted, towards)


def _gradients_of(ctx: Any, data: list, wanted: list[bool], towards: list) -> list:
    leaves = [t.detach().requires_grad_(w) for t, w in zip(data, wanted, strict=True)]
    state = torch.get_rng_state() if ctx.random_state is not None else None
    if state is not None:
        torch.set_rng_state(ctx.random_state)
    out = flat_tensors(_with_inputs(ctx, ctx.func, leaves))
    if state is not None:
        torch.set_rng_state(state)
    pairs = [(o, g) for o, g in zip(out, towards, strict=True) if g is not None]
    return list(
        torch.autograd.grad(
            [o for o, _ in pairs],
            [leaf for leaf in leaves if leaf.requires_grad],
            [g for _, g in pairs],
            allow_unused=True,
        )
    )


def _data_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.data_on_cpu if isinstance(tensor, SimTensor) else tensor
