"""Describes a PyTorch call in a few words: its name, and the arguments that can make the host
wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


class _RunningCalls(threading.local):
    running: tuple[object, tuple, dict] | None = None
    """The outermost call of this thread: function, arguments, keyword arguments."""


CALLS = _RunningCalls()
"""The running call of each thread, set by the code that watches PyTorch's functions, and reset when
the call ends."""


class during:
    """A context manager that makes a call the running call of this thread, unless the thread is
    inside another call already."""

    __slots__ = ("_call", "_outer")

    def __init__(self, function: object, args: tuple = (), kwargs: dict | None = None) -> None:
        self._call = function, args, kwargs or {}

    def __enter__(self) -> None:
        self._outer = CALLS.running
        if self._outer is None:
            CALLS.running = self._call

    def __exit__(self, *exception: object) -> None:
        CALLS.running = self._outer


def running_call() -> str | None:
    """Returns the running thread's call as `describe` names it, or None outside of any call."""
    return None if CALLS.running is None else describe(*CALLS.running)


def describe(function: object, args: tuple, kwargs: dict) -> str | None:
    """Returns the function's name, such as `item`, followed by what its arguments tell, such as
    `__getitem__(mask)`. Returns None for an object without a name and for a function that only runs
    others, such as `backward`."""
    name = getattr(function, "__name__", None)
    if name is None or name in RUNS_OTHERS:
        return None
    facts = FACTS.get(name)
    found = [*dict.fromkeys(facts(args, kwargs))] if facts else []
    return f"{name}({', '.join(found)})" if found else name


RUNS_OTHERS = {"backward", "grad", "__get__", "__set__", "_run_symbolic"}


def _of_index(args: tuple, kwargs: dict) -> Iterator[str]:
    """Yields the kind of each tensor, array and list in an index, such as "mask", of a slice bound
    on the device, and of the value that `x[index] = value` assigns."""
    parts = args[1] if isinstance(args[1], tuple) else (args[1],)
    for part in parts:
        yield from _of_part(part)
    if len(args) > 2:
        yield from _of_value(args[2])


def _of_part(part: Any) -> Iterator[str]:
    if isinstance(part, slice):
        if any(_on_device(bound) for bound in (part.start, part.stop, part.step)):
            yield "bound on the device"
    elif isinstance(part, torch.Tensor):
        is_mask = part.dtype in (torch.bool, torch.uint8)
        if is_mask:
            yield "mask" if _on_device(part) else "mask on the host"
        elif not _on_device(part):
            yield "index on the host"
        elif part.dim() == 0:
            yield "position on the device"
        else:
            yield "index"
    elif isinstance(part, np.ndarray):
        yield "mask on the host" if part.dtype == np.bool_ else "array"
    elif isinstance(part, (list, tuple, range)):
        if any(_on_device(one) for one in part):
            yield "list of positions on the device"
        elif part and all(isinstance(one, bool) for one in part):
            yield "mask on the host"
        else:
            yield "list"


def _of_value(value: Any) -> Iterator[str]:
    if isinstance(value, torch.Tensor):
        if not _on_device(value):
            yield "number on the host" if value.dim() == 0 else "value on the host"
    elif isinstance(value, (bool, int, float, complex)):
        yield "number"
    elif isinstance(value, (list, tuple, np.ndarray)):
        yield "value on the host"


def _of_host_memory(args: tuple, kwargs: dict) -> Iterator[str]:
    """Yields facts about the host tensor of a copy between host and device that can decide whether
    the host waits: "number on the host", "pinned", "holes", "another dtype"."""
    tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor)]
    host = next((t for t in tensors if not _on_device(t) and t.layout is torch.strided), None)
    if host is None:
        return
    if host.dim() == 0:
        yield "number on the host"
    if host.is_pinned():
        yield "pinned"
    if not host.is_contiguous():
        yield "holes"
    dtypes = {t.dtype for t in tensors}
    dtypes |= {v for v in (*args, *kwargs.values()) if isinstance(v, torch.dtype)}
    if len(dtypes) > 1:
        yield "another dtype"


def _of_values(args: tuple, kwargs: dict) -> Iterator[str]:
    """Yields the kind of `values` in `torch.tensor(values)` or `x.new_tensor(values)`, such as
    "list"."""
    values = next((v for v in args if not _is_tensor_method(v, args)), kwargs.get("data"))
    if isinstance(values, (list, tuple)):
        yield "list of tensors" if _has_tensor(values) else "list"
    elif isinstance(values, np.ndarray):
        yield "array"
    elif isinstance(values, torch.Tensor):
        yield "tensor"
    elif isinstance(values, (bool, int, float, complex, np.generic)):
        yield "number"


def _is_tensor_method(value: Any, args: tuple) -> bool:
    """Returns True if `value` is the tensor `x` of a call `x.new_tensor(values)`, which is not one
    of the values."""
    return len(args) > 1 and value is args[0] and isinstance(value, torch.Tensor)


def _has_tensor(values: Any) -> bool:
    """Returns True if a list, or a list in it, holds a tensor of the device. Below the first level
    it looks only at the first items."""
    return any(
        _on_device(one) or (isinstance(one, (list, tuple)) and _has_tensor(one[:1]))
        for one in values
    )


def _of_numbers(args: tuple, kwargs: dict) -> Iterator[str]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and not _on_device(value):
            yield "number on the host" if value.dim() == 0 else "value on the host"


def _of_bounds(args: tuple, kwargs: dict) -> Iterator[str]:
    if any(_on_device(value) for value in (*args, *kwargs.values())):
        yield "bound on the device"


def _on_device(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta")


Facts = Callable[[tuple, dict], Iterator[str]]
FACTS: dict[str, Facts] = {
    "__getitem__": _of_index,
    "__setitem__": _of_index,
    **dict.fromkeys(("to", "cuda", "copy_", "type", "to_copy", "float", "half"), _of_host_memory),
    **dict.fromkeys(("tensor", "as_tensor", "asarray", "new_tensor"), _of_values),
    **dict.fromkeys(("arange", "linspace", "full", "zeros", "ones", "empty"), _of_bounds),
    **dict.fromkeys(("where", "fill_", "masked_fill", "masked_fill_", "clamp"), _of_numbers),
    **dict.fromkeys(("index_fill_", "index_put_", "isin", "searchsorted"), _of_numbers),
}
"""The function that looks at a call's arguments and yields words about them, by the name of the
called function."""
