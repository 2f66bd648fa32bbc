"""Makes tensors on sim report the device "cuda:0", and accept "cuda" as a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from ..operators.features.loading import SimStorage
from ..operators.features.sparse import SparseTensor
from ..tensor import CALLED, SimTensor, said_device
from .refusing import check_index
from .replacing import in_place_of, replaced

_METHODS = ("to", "new_tensor")
_FUNCTIONS = ("as_tensor", "asarray")
"""Functions of `torch` that compare a device with the tensor's own device in C++, where the tensor
is on sim."""


@contextmanager
def tensors_say_cuda() -> Iterator[None]:
    functions = {name: _on_sim(getattr(torch, name)) for name in _FUNCTIONS}
    where = {"device": property(lambda self: said_device()), "is_cuda": property(lambda self: True)}
    with ExitStack() as stack:
        for kind in (SimTensor, SparseTensor):
            methods = {name: _on_sim(getattr(kind, name)) for name in _METHODS}
            replacing = in_place_of(kind, {"type": _type, **methods})
            stack.enter_context(replaced(kind, {**where, **replacing}))
        stack.enter_context(replaced(SimStorage, where))
        stack.enter_context(replaced(torch.Tensor, in_place_of(torch.Tensor, {"cuda": _cuda})))
        stack.enter_context(replaced(torch, in_place_of(torch, functions)))
        CALLED.add("cuda")
        stack.callback(CALLED.discard, "cuda")
        yield


def _on_sim(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        values = {name: for_sim(value) for name, value in kwargs.items()}
        return function(*map(for_sim, args), **values)

    return call


def for_sim(value: Any) -> Any:
    """Returns the device "sim:0" if `value` is a CUDA device, else `value` unchanged."""
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        value = torch.device(value)
    if isinstance(value, torch.device) and value.type == "cuda":
        check_index(value.index)
        return torch.device("sim", 0)
    return value


def _cuda(
    self: torch.Tensor,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: torch.memory_format = torch.preserve_format,
) -> torch.Tensor:
    """Moves a tensor to sim, as `Tensor.cuda()`. Handles an integer `device` itself, because to
    PyTorch an integer means a device of sim."""
    where = for_sim(torch.device("cuda", device) if isinstance(device, int) else device or "cuda")
    return self.to(where, non_blocking=non_blocking, memory_format=memory_format)


def _type(self: SimTensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Returns the name of the tensor's type, such as "torch.cuda.FloatTensor", if `dtype` is None,
    else the tensor converted to `dtype`."""
    if dtype is None:
        return torch.Tensor.type(self).replace("torch.sim.", "torch.cuda.")
    if isinstance(dtype, str):
        dtype = dtype.replace("torch.cuda.", "torch.sim.")
    return torch.Tensor.type(self, dtype, non_blocking=non_blocking, **kwargs)
