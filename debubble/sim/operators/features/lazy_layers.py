"""`torch.nn.LazyLinear` and other lazy layers on sim. A parameter only remembers its device until
its shape is known, because a tensor on sim is of another class than an uninitialized parameter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch.nn import parameter
from torch.nn.modules.lazy import LazyModuleMixin

from debubble.private.torch import apply_of, lazy_module_apply, own_buffers, own_parameters

from ...tensor import CALLED, SimTensor

KEPT = "_will_be_on_sim"


def install() -> None:
    for cls in (parameter.UninitializedParameter, parameter.UninitializedBuffer):
        cls.__new__ = staticmethod(partial(_make, cls.__new__))  # type: ignore[method-assign]  # sim's way in
    mixin: Any = parameter.UninitializedTensorMixin  # type: ignore[attr-defined]  # in no public list
    mixin.materialize = _materializing(mixin.materialize)
    lazy_module_apply.value = _move


def _make(of_pytorch: Callable[..., Any], cls: type, *args: Any, **options: Any) -> Any:
    device = options.get("device")
    where = torch.get_default_device() if device is None else torch.device(device)
    if where.type not in CALLED:
        return of_pytorch(cls, *args, **options)
    made = of_pytorch(cls, *args, **{**options, "device": "cpu"})
    setattr(made, KEPT, True)
    return made


def _move(self: Any, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
    """Replaces `_apply` of lazy modules, with which `to` changes a module's device or dtype: notes
    whether parameters without a shape yet will be on sim."""
    for tensors in (own_parameters(self), own_buffers(self)):
        for tensor in tensors.values():
            if parameter.is_lazy(tensor):
                like = torch.empty(0, dtype=tensor.dtype, device=_device_of(tensor))
                setattr(tensor, KEPT, isinstance(fn(like), SimTensor))
    waiting = [
        {name: t for name, t in tensors.items() if parameter.is_lazy(t) and getattr(t, KEPT)}
        for tensors in (own_parameters(self), own_buffers(self))
    ]
    for tensors, those in zip((own_parameters(self), own_buffers(self)), waiting, strict=True):
        tensors.update(dict.fromkeys(those))
    try:
        return apply_of(super(LazyModuleMixin, self))(fn, recurse)
    finally:
        own_parameters(self).update(waiting[0])
        own_buffers(self).update(waiting[1])


def _device_of(tensor: Any) -> torch.device:
    return torch.device("sim") if getattr(tensor, KEPT, False) else tensor.data.device


def _materializing(of_pytorch: Callable[..., None]) -> Callable[..., None]:
    @wraps(of_pytorch)
    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        where = _device_of(self) if device is None else torch.device(device)
        if where.type not in CALLED:
            of_pytorch(self, shape, device, dtype)
            return
        data = torch.empty(shape, device=where, dtype=dtype or self.data.dtype)
        is_parameter = isinstance(self, torch.nn.Parameter)
        made = torch.nn.Parameter(data, self.requires_grad) if is_parameter else data
        torch.utils.swap_tensors(self, made)

    return materialize
