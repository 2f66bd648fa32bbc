"""What PyTorch does with several GPUs, or with a GPU's own counters, where there is one of sim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .refusing import NotSimulated, say_once

PROFILER = (
    "torch.profiler sees nothing of sim but the host: debubble.record() gives what the device does"
)
NCCL = (
    "the backend 'nccl' can't be simulated: sim is one GPU, and processes on sim talk through the "
    "backend 'gloo'"
)


def profiling_the_host(begin: Callable[..., None]) -> Callable[..., None]:
    """`__init__` of PyTorch's profiler, which would look for CUDA's events."""

    def __init__(self: Any, enabled: bool = True, **options: Any) -> None:
        if options.pop("use_cuda", False) or options.get("use_device"):
            say_once(PROFILER)
        begin(self, enabled, **{**options, "use_device": None})

    return __init__


def refusing_nccl(begin: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.distributed.init_process_group`."""

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if backend is not None and "nccl" in str(backend).lower():
            raise NotSimulated(NCCL)
        return begin(backend, *args, **kwargs)

    return init_process_group
