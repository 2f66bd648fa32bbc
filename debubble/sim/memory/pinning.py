"""Pinned host memory for sim: which host addresses count as page-locked, and how to get some."""

from __future__ import annotations

import functools
import mmap
import os
import threading
import weakref
from bisect import bisect_right, insort
from collections import deque
from contextlib import suppress

import torch
from torch.jit._builtins import _find_builtin, _register_builtin

from debubble.contract.addresses import check_registration

from .blocks import HostBlock, PagesRef

VARIABLE = "DEBUBBLE_PINNING"

_lock = threading.RLock()
"""Taken again by its holder: garbage may be collected at any line, and pinned memory is garbage."""
_ranges: list[tuple[int, int]] = []
_blocks: dict[int, HostBlock] = {}
_registered: set[int] = set()
"""Both by the address of a range's first byte."""
_freed: deque[PagesRef] = deque()
"""Pages to forget. Ctrl-C can end any function of Python's, also one that is called when memory is
freed; to append here is none."""
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
    """Pages of their own: an address in them is never one that pageable memory had."""


def is_pinned(tensor: torch.Tensor) -> bool:
    if not _ranges:
        return False
    return _range_at(tensor.data_ptr()) is not None


def block_at(address: int) -> HostBlock | None:
    """The pinned range that an address lies in."""
    address_range = _range_at(address)
    return address_range and _blocks.get(address_range[0])


def is_possible() -> bool:
    """False stands for a platform that can't pin, such as WSL."""
    return os.environ.get(VARIABLE, "on") != "off"


def pinned_empty_strided(
    shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """A CPU tensor of that shape, stride and dtype in pinned memory."""
    _check_possible()
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if 0 in shape:
        return torch.empty_strided(shape, stride, dtype=dtype, device="cpu")
    pages = _PinnedPages(-1, span * dtype.itemsize)
    flat = torch.frombuffer(pages, dtype=dtype, count=span)
    address_range = (flat.data_ptr(), flat.data_ptr() + len(pages))
    weakref.finalize(pages, _forget_freed)
    _remember(address_range, PagesRef(pages, _freed.append))
    return flat.as_strided(shape, stride)


def pinned_copy(tensor: torch.Tensor) -> torch.Tensor:
    copy = pinned_empty_strided(tuple(tensor.shape), _dense_stride(tensor), tensor.dtype)
    return copy.copy_(tensor)


def register(address: int, nbytes: int) -> None:
    """Counts memory that there is as pinned. RuntimeError where that can't be, or is so already."""
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
    # If Ctrl-C hits one of these lines, it can be registered again, and unregistered.
    _registered.add(address)
    _remember((address, address + nbytes))


def unregister(address: int) -> None:
    """RuntimeError for an address that nothing was registered with."""
    if address not in _registered:
        raise RuntimeError(
            f"no host memory is registered at {address:#x}: give the address of its registration"
        )
    if (block := _blocks.get(address)) is not None:
        _forget(block.span())
    _registered.discard(address)


def install() -> None:
    """Teaches PyTorch `pin_memory()`, `is_pinned()` and `pin_memory=True` for sim.

    PyTorch asks a C++ allocator for pinned memory, which a backend written in Python can't
    offer. So the factories that take `pin_memory=` are wrapped. A function mode would be tidier,
    but it holds for one thread only, and a worker thread that pins would miss it.
    """
    global _library
    if _library is not None:
        return
    with torch.device("cpu"):
        torch.empty(0)  # PyTorch notes now which functions a default device is for.
    _library = torch.library.Library("aten", "IMPL")
    _library.impl("is_pinned", lambda tensor, device=None: is_pinned(tensor), "CPU")
    _library.impl("_pin_memory", lambda tensor, device=None: pinned_copy(tensor), "CPU")
    for owner, names in _FACTORIES.items():
        for name in names:
            factory = getattr(owner, name)
            setattr(owner, name, _with_pinning(factory))
            if (operator := _find_builtin(factory)) is not None:
                # PyTorch's scripts, such as its forward derivatives, know a factory by identity.
                _register_builtin(getattr(owner, name), operator)


def _with_pinning(factory):
    @functools.wraps(factory)
    def make(*args, **kwargs):
        if not kwargs.pop("pin_memory", False):
            return factory(*args, **kwargs)
        if factory.__name__ in ("tensor", "new_tensor"):
            return _from_pinned(factory, *args, **kwargs)
        tensor = factory(*args, **kwargs)
        if tensor.device.type != "cpu":
            raise RuntimeError(f"only dense CPU tensors can be pinned, not one on {tensor.device}")
        return _pinned_like(tensor)

    return make


def _from_pinned(factory, *args, device=None, requires_grad=False, **kwargs):
    """Makes a tensor of Python values: pinned first, then copied to where it is to be."""
    of = args[0] if factory.__name__ == "new_tensor" else None
    values = [*args[of is not None :], kwargs.get("data")][0]
    if isinstance(values, torch.Tensor):
        raise RuntimeError(
            f"torch.{factory.__name__} pins values, not a tensor: call pin_memory() on the tensor"
        )
    place = device if device is not None else of.device if of is not None else None
    place = torch.get_default_device() if place is None else place
    pinned = pinned_copy(factory(*args, device="cpu", **kwargs))
    return pinned.to(place).requires_grad_(requires_grad)


def _pinned_like(tensor: torch.Tensor) -> torch.Tensor:
    return pinned_copy(tensor.detach()).requires_grad_(tensor.requires_grad)


def _dense_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """The strides of a dense tensor are kept, as PyTorch does; others become row-major."""
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
    """Forgets a range. If Ctrl-C interrupted what remembered or forgot it, this does the rest."""
    with _lock:
        if address_range in _ranges:
            _ranges.remove(address_range)
        _blocks.pop(address_range[0], None)


def _forget_freed() -> None:
    """Forgets pages that were freed. If Ctrl-C interrupts it, the next look-up does the rest."""
    if not _freed:
        return
    with _lock:
        while _freed:
            freed = _freed[0]
            _forget(freed.span)
            with suppress(ValueError):  # Memory that was freed meanwhile may come here first.
                _freed.remove(freed)
