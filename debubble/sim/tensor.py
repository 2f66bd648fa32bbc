"""SimTensor: a tensor on the device "sim", a thin wrapper around the CPU tensor with its data."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import cache
from numbers import Number
from typing import Any, SupportsIndex

import torch

from ..contract.source_line import SourceLine
from ..private import torch as private
from ..rules.calls import during
from .memory.blocks import ALLOCATIONS, Block, DeviceBlock, Storage


class SimTensor(torch.Tensor):
    """A tensor on sim: `data_on_cpu` holds its data, `block` is the allocation of that data."""

    data_on_cpu: torch.Tensor
    block: Block
    taken: tuple[int, SourceLine | None] | None = None
    """The number of the replay after which this view of a graph's output was made, and the line
    that made it; None for other tensors."""

    __torch_function__ = private.disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data_on_cpu: torch.Tensor, block: Block | None = None) -> SimTensor:
        tensor = private.make_wrapper_subclass(
            cls,
            data_on_cpu.size(),
            strides=data_on_cpu.stride(),
            storage_offset=data_on_cpu.storage_offset(),
            dtype=data_on_cpu.dtype,
            device=_DEVICE,
        )
        tensor.data_on_cpu = data_on_cpu
        tensor.block = block or DeviceBlock(data_on_cpu)
        return tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[override]  # PyTorch's own is no method
        if len(types) > 1 and not all(issubclass(kind, SimTensor) for kind in types):
            return NotImplemented  # A class that wraps tensors on sim knows what to do with them.
        return _run(func, args, kwargs or {})

    def look_at(self, data_on_cpu: torch.Tensor, block: Block) -> None:
        """Makes this tensor view other CPU data and its allocation, as `resize_`, `t_` and `out=`
        need."""
        _DATA.__set__(self, SimTensor(data_on_cpu, block))
        self.data_on_cpu, self.block = data_on_cpu, block
        ALLOCATIONS.changes += 1

    @property
    def data(self) -> torch.Tensor:
        return _DATA.__get__(self)

    @data.setter
    def data(self, other: torch.Tensor) -> None:
        if not isinstance(other, SimTensor):
            raise RuntimeError(
                f"a tensor on {self.device} can't take its data from one on {other.device}: "
                "move it there first"
            )
        self.look_at(other.data_on_cpu, other.block)

    def data_ptr(self) -> int:
        """Returns the address of the first element, which is constant while the allocation lives,
        and makes the allocation known to address look-ups."""
        self.block.put_on_map()
        return self.data_on_cpu.data_ptr()

    def untyped_storage(self) -> torch.UntypedStorage:
        self.block.put_on_map()
        return Storage.of(self.data_on_cpu, self.block)

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def pin_memory(self, device: Any = None) -> torch.Tensor:
        raise RuntimeError(f"only dense CPU tensors can be pinned, not one on {self.device}")

    def record_stream(self, stream: Any) -> None:
        """Keeps the allocator from reusing this tensor's memory until `stream` is done with it.

        Raises TypeError if `stream` is not a stream of sim."""
        number = getattr(stream, "number", None)
        if number is None:
            raise TypeError(f"record_stream takes a stream of sim, not {stream!r}")
        self.block.kept_for |= {number}

    def tolist(self) -> Any:
        with during(torch.Tensor.tolist):
            return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.cpu().numpy()
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. "
            "Use Tensor.cpu() to copy the tensor to host memory first."
        )

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and not self.is_meta:
            with during(torch.Tensor.__format__):
                return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # PyTorch gives its argument no name
        """Returns the text that a CUDA tensor prints. Reads each value alone, and each read waits
        for the device."""
        try:
            with during(torch.Tensor.__repr__):
                text = private.tensor_str(self, tensor_contents=tensor_contents)
        except Exception as error:
            # PyTorch's frame keeps torch.func switched off for as long as a traceback keeps it.
            raise error.with_traceback(None) from None
        text = text.replace("SimTensor(", "tensor(", 1).replace("\n" + " " * 10, "\n" + " " * 7)
        if isinstance(self, torch.nn.Parameter):
            return "Parameter containing:\n" + text.removeprefix("Parameter(")[:-1]
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> SimTensor:
        if id(self) not in memo:
            copy = memo[id(self)] = self.detach().clone().requires_grad_(self.requires_grad)
            if isinstance(self, torch.nn.Parameter):
                memo[id(self)] = torch.nn.Parameter(copy, self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickles the tensor as PyTorch pickles its own device tensors, so that
        `torch.load(map_location=)` can move it."""
        return self.made_from(self.detach().cpu())

    def made_from(self, data: torch.Tensor) -> tuple:
        """Returns how pickle makes this tensor from a copy of its data on the CPU."""
        arguments = (data, self.dtype, str(self.device), self.requires_grad)
        return private.rebuild_device_tensor, arguments

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError(f"a tensor on {self.device} has no memory to share: hand over its .cpu()")

    def as_subclass(self, cls: type) -> Any:
        """Returns a view of the same memory whose class is a subclass of `cls` and SimTensor."""
        return _AsSubclass.apply(self, _on_sim(cls))

    def __setitem__(self, index: Any, value: Any) -> None:
        with during(torch.Tensor.__setitem__, (self, index, value)):
            assign(self, index, value)


class _AsSubclass(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: SimTensor, cls: type) -> SimTensor:
        return SimTensor.__new__(cls, tensor.data_on_cpu, tensor.block)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        return gradient, None


@cache
def _on_sim(cls: type) -> type:
    """Returns a subclass of both `cls` and SimTensor, with the name of `cls`."""
    if cls is torch.Tensor or issubclass(cls, SimTensor):
        return SimTensor if cls is torch.Tensor else cls
    return type(cls.__name__, (cls, _KeepsItsClass, SimTensor), {"__module__": cls.__module__})


class _KeepsItsClass:
    """A mixin that gives results the class of their inputs, as PyTorch's own subclasses do."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.Tensor.__torch_function__.__func__(cls, func, types, args, kwargs or {})  # type: ignore[attr-defined]  # a class method


_DATA: Any = inspect.getattr_static(torch.Tensor, "data")
"""PyTorch's own `Tensor.data`, which `SimTensor.data` hides."""
_DEVICE = torch.device("cpu")
_run: Any = None
CALLED = {"sim"}
"""The device types that mean sim: "sim", and "cuda" inside `as_cuda`."""


def connect(device: torch.device, run: Any) -> None:
    """Sets the device that tensors on sim report, and the dispatcher that runs their operators.

    Called once, when the backend is registered."""
    global _DEVICE, _run
    _DEVICE, _run = device, run


def said_device() -> torch.device:
    """Returns the device that tensors on sim report: "cuda:0" inside `as_cuda`, else sim."""
    return torch.device("cuda", 0) if "cuda" in CALLED else _DEVICE


def assign(tensor: SimTensor, index: Any, value: Any) -> None:
    """Runs `tensor[index] = value` by CUDA's rules.

    PyTorch treats CUDA as special: a Python number becomes a tensor on the *CPU*. A plain slice
    is filled from that tensor, which needs no copy. An index tensor needs the number on the device,
    which is a blocking upload. A boolean mask becomes a masked fill.

    Raises TypeError if `value` is neither a number nor a tensor.
    """
    if isinstance(value, Number):
        value = torch.tensor(value, dtype=tensor.dtype, device="cpu")
    elif not isinstance(value, torch.Tensor):
        raise TypeError(
            f"can't assign a {type(value).__name__} to a tensor: make it a tensor first"
        )
    view, index_tensors = _narrow(tensor, _parts_of(index))
    if index_tensors:
        torch.ops.aten.index_put_(view, index_tensors, value)
    elif view.shape == value.shape:
        view.copy_(value)
    elif value.dim() == 0 and value.device.type == "cpu":
        view.fill_(value)
    else:
        while value.dim() > view.dim() and value.size(0) == 1:
            value = value.squeeze(0)
        view.copy_(value)


def _parts_of(index: Any) -> tuple[Any, ...]:
    """Returns the index as a tuple with one part for each of its items. A list shorter than 32 that
    holds more than numbers counts as a tuple, as it did in old versions of NumPy."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, Sequence) and len(index) < 32:
        compound = (torch.Tensor, Sequence, slice, type(None), type(Ellipsis))
        if any(isinstance(part, compound) for part in index):
            return tuple(index)
    return (index,)


def _narrow(
    tensor: torch.Tensor, parts: tuple[Any, ...]
) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    """Applies the numbers, slices and None of an index. Returns the view that they make, and the
    index tensors left, by dimension of the view."""
    view, dimension = tensor, 0
    index_tensors: list[torch.Tensor | None] = []
    for part in parts:
        if part is None:
            view = view.unsqueeze(dimension)
            dimension += 1
        elif part is Ellipsis:
            dimension += tensor.dim() - sum(_dimensions_of(other) for other in parts)
        elif isinstance(part, slice):
            if part != slice(None):
                view = view[(slice(None),) * dimension + (part,)]
            dimension += 1
        elif _is_integer(part):
            view = view.select(dimension, int(part))
        else:
            if isinstance(part, bool) or (isinstance(part, torch.Tensor) and part.dim() == 0):
                # A mask without dimensions is read on the host, and takes all or nothing.
                view = view.unsqueeze(dimension)
                part = torch.zeros(int(bool(part)), dtype=torch.int64, device=tensor.device)
            index_tensors += [None] * (dimension - len(index_tensors))
            index_tensors.append(_index_tensor(part, tensor.device))
            dimension += 1
    return view, index_tensors


def _index_tensor(part: Any, device: torch.device) -> torch.Tensor:
    """Returns an index as a tensor. Like PyTorch, uploads a list or an index tensor to `device`,
    and leaves a mask where it is, even on the CPU."""
    if not isinstance(part, torch.Tensor):
        return torch.as_tensor(part, device="cpu").to(device)
    return part.to(device) if part.device.type == "cpu" and part.dtype != torch.bool else part


def _is_integer(part: Any) -> bool:
    if isinstance(part, torch.Tensor):
        return part.dim() == 0 and part.dtype not in (torch.bool, torch.uint8)
    return (
        not isinstance(part, bool) and hasattr(part, "__index__") and not hasattr(part, "__len__")
    )


def _dimensions_of(part: Any) -> int:
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8):
        return part.dim()
    return 1
