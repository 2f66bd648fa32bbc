"""Creates a tensor on sim where PyTorch's C++ side would create one on "cuda".

A tensor on sim stays on PyTorch's PrivateUse1 device. A factory called for CUDA creates it there
instead, in every thread: each factory has a kernel for the dispatch key "CUDA". If C++ asks which
GPU `"cuda"` without a number is, sim's device guard answers with sim's device.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from debubble.private.torch import destroy_library

from ..operators.dispatch import Dispatcher
from ..operators.factories import Factories
from .refusing import check_index

REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
"""The symbol of PyTorch's table of device guards: one pointer for each device type."""
CUDA, PRIVATE_USE_1 = 1, 20
"""The numbers of the device types CUDA and PrivateUse1, as indices of that table."""
LIBRARIES = {"linux": "libc10.so", "darwin": "libc10.dylib"}
WITHOUT_A_COMPOSITION = ("tril_indices", "triu_indices")
"""Factories that PyTorch doesn't compose of others for CUDA: it has a CUDA kernel for each, if it
is built with CUDA."""


@contextmanager
def cuda_is_made_on_sim(dispatcher: Dispatcher) -> Iterator[None]:
    """Creates on sim, inside the block, every tensor that PyTorch would create on CUDA.

    Raises RuntimeError if PyTorch's table of device guards can't be found."""
    guards = _device_guards()
    factories = Factories(dispatcher)
    library, fallback = (torch.library.Library(name, "IMPL") for name in ("aten", "_"))
    outer = guards[CUDA]
    try:
        guards[CUDA] = guards[PRIVATE_USE_1]
        for name, make in factories.by_name.items():
            library.impl(name, _on_the_only_gpu(make), "CUDA")
        for name in WITHOUT_A_COMPOSITION:
            func = getattr(torch.ops.aten, name).default
            library.impl(name, _on_the_only_gpu(_dispatching(dispatcher, func)), "CUDA")
        fallback.fallback(lambda func, *args, **kwargs: dispatcher(func, args, kwargs), "CUDA")
        yield
    finally:
        guards[CUDA] = outer
        destroy_library(library)
        destroy_library(fallback)


def _dispatching(dispatcher: Dispatcher, func: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: dispatcher(func, args, kwargs)


def _on_the_only_gpu(make: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*args: Any, device: torch.device | None = None, **options: Any) -> Any:
        check_index(None if device is None else device.index)
        return make(*args, device=device, **options)

    return checked


def _device_guards() -> Any:
    """Returns PyTorch's own table of device guards as an array of pointers. Writing to it changes
    PyTorch.

    Raises RuntimeError if the table can't be found.
    """
    try:
        path = Path(torch.__file__).parent / "lib" / LIBRARIES[sys.platform]
        return (ctypes.c_void_p * (PRIVATE_USE_1 + 1)).in_dll(
            ctypes.CDLL(os.fspath(path)), REGISTRY
        )
    except (KeyError, OSError, ValueError):
        raise RuntimeError(
            f'"cuda" can\'t be taken for sim here: PyTorch {torch.__version__} for {sys.platform} '
            "doesn't say where its device guards are; use Linux or macOS, in a container or WSL 2"
        ) from None
