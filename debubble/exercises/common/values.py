"""Compares, copies and changes the arguments and results of the common checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import numpy as np

from debubble.contract.packages.pytorch import need_pytorch

if TYPE_CHECKING:
    import torch

    from debubble.accelerator import Accelerator
else:
    torch = need_pytorch(__name__)


def plain(value: object) -> object:
    """Returns a result without classes of its own: dicts, named tuples and dataclasses become
    tuples of their values, so that any two results can be compared."""
    if is_dataclass(value) and not isinstance(value, type):
        return tuple(plain(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, dict):
        return tuple((key, plain(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def snapshot(value: object) -> object:
    """Returns `plain(value)` with copies of its tensors."""
    value = plain(value)
    if isinstance(value, tuple):
        return tuple(snapshot(item) for item in value)
    return value.clone() if isinstance(value, torch.Tensor) else value


def tensors_of(value: object) -> Iterator[torch.Tensor]:
    """Yields the tensors of a result."""
    value = plain(value)
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from tensors_of(item)


def share_memory(one: object, other: object) -> bool:
    """True if a tensor of one result has bytes in common with a tensor of the other result."""
    theirs = [*map(_bytes_of, tensors_of(other))]
    return any(
        start < end and first < last and start < last and first < end
        for start, end in map(_bytes_of, tensors_of(one))
        for first, last in theirs
    )


def _bytes_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the addresses of the tensor's first byte and of the byte after its last one."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    reach = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return start, start + (reach + 1) * tensor.element_size()


def pinned(value: object, accelerator: Accelerator) -> object:
    """Returns host tensors, and those in lists, tuples and dicts, in pinned memory if the platform
    can pin: a caller may have them there."""
    if isinstance(value, torch.Tensor) and value.device.type == "cpu" and accelerator.pin_memory:
        return value.pin_memory()
    if isinstance(value, list):
        return [pinned(item, accelerator) for item in value]
    if type(value) is tuple:
        return tuple(pinned(item, accelerator) for item in value)
    if type(value) is dict:
        return {key: pinned(item, accelerator) for key, item in value.items()}
    return value


def change(value: object) -> None:
    """Changes an object on the host as its owner might: other numbers, and fewer of them."""
    if isinstance(value, torch.Tensor):
        if value.device.type == "cpu":
            value.copy_(value.flip(0) + 1 if value.dtype != torch.bool else ~value)
    elif isinstance(value, np.ndarray):
        value[...] = value[::-1].copy() + 1
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            change(item)
        if not isinstance(value, tuple):
            value.clear()
    elif isinstance(value, set):
        value.clear()
