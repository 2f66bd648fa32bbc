"""Replacements for PyTorch's profiler and NCCL inside `as_cuda`, where sim is the only GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

import torch

from .refusing import NotSimulated, say_once
from .replacing import in_place_of

PROFILER = "torch.profiler sees only the host on sim: debubble.record() also records the device"
NCCL_VERSION = (2, 29, 7)
SEVERAL = (
    "the backend 'nccl' can't be simulated for {size} processes: sim is one GPU, so start one "
    "process (torchrun --nproc_per_node=1), or let them talk through the backend 'gloo'"
)


def profiling_the_host(begin: Callable[..., None]) -> Callable[..., None]:
    """Returns an `__init__` for PyTorch's profiler that records the host alone: no CUDA events."""

    def __init__(self: Any, enabled: bool = True, **options: Any) -> None:
        if options.pop("use_cuda", False) or options.get("use_device"):
            say_once(PROFILER)
        begin(self, enabled, **{**options, "use_device": None})

    return __init__


def nccl_of_one() -> Iterator[tuple[object, dict[str, object]]]:
    """Yields each module of PyTorch with its replacements for the backend "nccl" in an `as_cuda`
    block: a group of one process, which gloo runs. These raise NotSimulated for more processes."""
    from torch.distributed import distributed_c10d

    class ProcessGroupNCCL(torch.distributed.ProcessGroupGloo):
        Options: Any = _NcclOptions

        def __init__(self, store: Any, rank: int, size: int, options: Any = None, **more: Any):
            _expect_one(size)
            super().__init__(store, rank, size, timeout=(options or _NcclOptions())._timeout)

    begin = torch.distributed.init_process_group

    def init_process_group(
        backend: str | None = None,
        init_method: str | None = None,
        timeout: timedelta | None = None,
        world_size: int = -1,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        name = "nccl" if backend is None else backend
        if "nccl" in str(name).lower():
            _expect_one(_members(init_method, world_size))
        return begin(name, init_method, timeout, world_size, *args, **kwargs)

    names = {
        "init_process_group": init_process_group,
        "is_nccl_available": lambda: True,
        "ProcessGroupNCCL": ProcessGroupNCCL,
    }
    same = in_place_of(distributed_c10d, names)
    timeout = {"default_pg_nccl_timeout": torch.distributed.constants.default_pg_timeout}
    yield torch.distributed, same
    yield distributed_c10d, same | timeout
    yield torch.cuda.nccl, in_place_of(torch.cuda.nccl, {"version": lambda: NCCL_VERSION})


class _NcclOptions:
    """`ProcessGroupNCCL.Options`: takes any attribute, but only the timeout is used."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self._timeout = torch.distributed.constants.default_pg_timeout


def _members(init_method: str | None, world_size: int) -> int:
    """Returns how many processes the group will have, from `world_size`, the URL or the
    environment; 1 if none of them says so."""
    if world_size > 0:
        return world_size
    url = urlparse(init_method or "env://")
    in_url = parse_qs(url.query).get("world_size", ["1"])[0]
    return int(os.environ.get("WORLD_SIZE", in_url) if url.scheme == "env" else in_url)


def _expect_one(size: int) -> None:
    if size > 1:
        raise NotSimulated(SEVERAL.format(size=size))
