"""Pinned host memory for sim: allocates and registers it, and knows which addresses are pinned."""

from __future__ import annotations

import functools
import mmap
import os
import threading
import weakref
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from debubble.contract.addresses import check_registration
from debubble.private.torch import find_builtin, register_builtin

from . import caching
from .blocks import HostBlock, PagesRef

VARIABLE = "DEBUBBLE_PINNING"

_lock = threading.RLock()
"""A reentrant lock, because a garbage collection at any line may free pinned memory."""
_ranges: list[tuple[int, int]] = []
_blocks: dict[int, HostBlock] = {}
_registered: set[int] = set()
"""The addresses at which memory registered by `register` begins. They are also keys of
`_blocks`."""
_freed: deque[PagesRef] = deque()
"""References to freed pages that still count as pinned, until `_forget_freed`. Ctrl-C can end any
Python function, even one called when memory is freed, but not this deque's `append`, which is no
Python function."""
_library: torch.library.Library | None = None

_FACTORIES = {
    torch: [
        "arange",
        "empty",
        "empty_like",
        "empty_strided",
        "eye",
        "full",
        "full_like",
        "linspace",
        "ones",
        "ones_like",
        "rand",
        "rand_like",
        "randint",
        "randn",
        "randn_like",
        "tensor",
        "zeros",
        "zeros_like",
    ],
    torch.Tensor: ["new_empty", "new_full", "new_ones", "new_tensor", "new_zeros"],
}


class _PinnedPages(mmap.mmap):
    """Memory pages for pinned tensors, mapped separately: their addresses never belonged to
    pageable memory."""


def is_pinned(tensor: torch.Tensor) -> bool:
    if not _ranges:
        return False
    return _range_at(tensor.data_ptr()) is not None


def block_at(address: int) -> HostBlock | None:
    """Returns the pinned block that an address lies in, or None."""
    address_range = _range_at(address)
    return address_range and _blocks.get(address_range[0])


def is_possible() -> bool:
    """Returns True unless DEBUBBLE_PINNING is off, which simulates a platform that can't pin, such
    as WSL."""
    return os.environ.get(VARIABLE, "on") != "off"


def pinned_empty_strided(
    shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Returns a CPU tensor of this shape, stride and dtype in pinned memory. Raises RuntimeError if
    pinning is off."""
    _check_possible()
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if 0 in shape:
        return torch.empty_strided(shape, stride, dtype=dtype, device="cpu")
    size = caching.PINNED.take(span * dtype.itemsize)
    pages = _PinnedPages(-1, span * dtype.itemsize)
    flat = torch.frombuffer(pages, dtype=dtype, count=span)
    address_range = (flat.data_ptr(), flat.data_ptr() + len(pages))
    weakref.finalize(pages, _forget_freed)
    weakref.finalize(pages, caching.PINNED.given.append, size)
    _remember(address_range, PagesRef(pages, _freed.append))
    return flat.as_strided(shape, stride)


def pinned_copy(tensor: torch.Tensor) -> torch.Tensor:
    copy = pinned_empty_strided(tuple(tensor.shape), _dense_stride(tensor), tensor.dtype)
    return copy.copy_(tensor)


def register(address: int, nbytes: int) -> None:
    """Pins existing memory. Raises RuntimeError for a range that no driver would register, for
    memory of which a part is pinned already, and if pinning is off."""
    check_registration(address, nbytes)
    _check_possible()
    with _lock:
        _forget_freed()
        at = bisect_right(_ranges, (address + nbytes,)) - 1
        if at >= 0 and _ranges[at][1] > address:
            raise RuntimeError(
                f"{nbytes} bytes at {address:#x} are page-locked already, some or all of them: "
                "register each part of host memory once"
            )
    # If Ctrl-C interrupts these lines, the memory can still be registered and unregistered.
    _registered.add(address)
    _remember((address, address + nbytes))


def unregister(address: int) -> None:
    """Unpins registered memory. Raises RuntimeError if no memory was registered at `address`."""
    if address not in _registered:
        raise RuntimeError(
            f"no host memory is registered at {address:#x}: give the address of its registration"
        )
    if (block := _blocks.get(address)) is not None:
        _forget(block.span())
    _registered.discard(address)


def install(aside: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Makes PyTorch's `pin_memory()`, `is_pinned()` and `pin_memory=True` work for sim. `aside`
    returns a function whose time is sim's own.

    PyTorch gets pinned memory from a C++ allocator, which a backend written in Python can't
    offer. So the factories that take `pin_memory=` are wrapped. A function mode would be tidier,
    but it covers one thread only, and a worker thread that pins would miss it.
    """
    global _library
    if _library is not None:
        return
    with torch.device("cpu"):
        torch.empty(0)  # Now PyTorch caches which functions use the default device.
    _library = torch.library.Library("aten", "IMPL")
    _library.impl("is_pinned", lambda tensor, device=None: is_pinned(tensor), "CPU")
    copy = aside(pinned_copy)
    _library.impl("_pin_memory", lambda tensor, device=None: copy(tensor), "CPU")
    for owner, names in _FACTORIES.items():
        for name in names:
            factory = getattr(owner, name)
            setattr(owner, name, _with_pinning(factory, copy))
            if (operator := find_builtin(factory)) is not None:
                # PyTorch's scripts, such as its forward derivatives, know a factory by identity.
                register_builtin(getattr(owner, name), operator)


def _with_pinning(factory, copy):
    @functools.wraps(factory)
    def make(*args, **kwargs):
        if not kwargs.pop("pin_memory", False):
            return factory(*args, **kwargs)
        if factory.__name__ in ("tensor", "new_tensor"):
            return _from_pinned(factory, copy, *args, **kwargs)
        tensor = factory(*args, **kwargs)
        if tensor.device.type != "cpu":
            raise RuntimeError(f"only dense CPU tensors can be pinned, not one on {tensor.device}")
        return copy(tensor.detach()).requires_grad_(tensor.requires_grad)

    return make


def _from_pinned(factory, copy, *args, device=None, requires_grad=False, **kwargs):
    """Makes a tensor from Python values for `torch.tensor` or `new_tensor` with `pin_memory=True`:
    first in pinned memory, then on its device. Raises RuntimeError if the values are a tensor."""
    of = args[0] if factory.__name__ == "new_tensor" else None
    values = [*args[of is not None :], kwargs.get("data")][0]
    if isinstance(values, torch.Tensor):
        raise RuntimeError(
            f"torch.{factory.__name__} pins values, not a tensor: call pin_memory() on the tensor"
        )
    place = device if device is not None else of.device if of is not None else None
    place = torch.get_default_device() if place is None else place
    pinned = copy(factory(*args, device="cpu", **kwargs))
    return pinned.to(place).requires_grad_(requires_grad)


def _dense_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """Returns the strides that a pinned copy of `tensor` has. As in PyTorch, a dense tensor keeps
    its strides, and any other becomes row-major."""
    return tuple(torch.empty_like(tensor, device="meta").stride())


def _check_possible() -> None:
    if not is_possible():
        raise RuntimeError(f"host memory can't be pinned here: {VARIABLE} is off")


def _range_at(address: int) -> tuple[int, int] | None:
    _forget_freed()
    at = bisect_right(_ranges, (address, float("inf"))) - 1
    return _ranges[at] if at >= 0 and address < _ranges[at][1] else None


def _remember(address_range: tuple[int, int], pages: PagesRef | None = None) -> None:
    block = HostBlock(*address_range, pages)
    with _lock:
        _forget_freed()
        _blocks[address_range[0]] = block
        insort(_ranges, address_range)


def _forget(address_range: tuple[int, int]) -> None:
    """Makes a range of addresses count as pageable again, even if Ctrl-C interrupted an earlier
    call for it."""
    with _lock:
        if address_range in _ranges:
            _ranges.remove(address_range)
        _blocks.pop(address_range[0], None)


def _forget_freed() -> None:
    """Makes the addresses of freed pages count as pageable again. If Ctrl-C interrupts it, the next
    look-up does the rest."""
    if not _freed:
        return
    with _lock:
        while _freed:
            freed = _freed[0]
            _forget(freed.span)
            with suppress(ValueError):  # Memory that was freed meanwhile may come here first.
                _freed.remove(freed)
