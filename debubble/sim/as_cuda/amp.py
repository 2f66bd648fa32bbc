"""`torch.autocast("cuda")` on sim: PyTorch stores autocast's state under the device name "sim"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.amp import autocast_mode

from .replacing import in_place_of, replaced

_BY_DEVICE = (
    "is_autocast_enabled",
    "set_autocast_enabled",
    "get_autocast_dtype",
    "set_autocast_dtype",
)


@contextmanager
def autocast_of_cuda_is_sims() -> Iterator[None]:
    functions: dict[str, object] = {name: _of_sim(getattr(torch, name)) for name in _BY_DEVICE}
    functions["is_autocast_enabled"] = _without_device(torch.is_autocast_enabled)
    functions["get_autocast_gpu_dtype"] = lambda: torch.get_autocast_dtype("sim")
    functions["set_autocast_gpu_dtype"] = lambda dtype: torch.set_autocast_dtype("sim", dtype)
    begin = autocast_mode.autocast.__init__

    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, _named(device_type), *args, **kwargs)

    available = in_place_of(
        autocast_mode, {"is_autocast_available": _of_sim(autocast_mode.is_autocast_available)}
    )
    with ExitStack() as stack:
        stack.enter_context(replaced(torch, in_place_of(torch, functions)))
        stack.enter_context(replaced(torch.amp, available))
        stack.enter_context(replaced(autocast_mode, available))
        begins = in_place_of(autocast_mode.autocast, {"__init__": __init__})
        stack.enter_context(replaced(autocast_mode.autocast, begins))
        yield


def _of_sim(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(device_type: str, *args: Any) -> Any:
        return function(_named(device_type), *args)

    return call


def _without_device(function: Callable[..., bool]) -> Callable[..., bool]:
    """Returns a version of `function` whose argument, the device type, is CUDA by default."""
    return lambda device_type="cuda": function(_named(device_type))


def _named(device_type: Any) -> Any:
    is_cuda = isinstance(device_type, str) and device_type.partition(":")[0] == "cuda"
    return "sim" if is_cuda else device_type
