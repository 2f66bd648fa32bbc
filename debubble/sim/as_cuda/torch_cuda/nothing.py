"""What a script may call, and what does nothing on sim: there is one GPU, and no profiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..refusing import check_index
from .streams import index_of


def nothing(*arguments: Any, **options: Any) -> None:
    """Neither does nor says anything."""


class Device:
    """`with torch.cuda.device(0):`, which refuses every other GPU."""

    def __init__(self, device: Any = None) -> None:
        self.idx = index_of(getattr(device, "device", device))
        check_index(self.idx if self.idx != -1 else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


@contextmanager
def a_range(message: str = "", *arguments: Any, **options: Any) -> Iterator[None]:
    """`with torch.cuda.nvtx.range("step"):`"""
    yield


NVTX = {
    "range_push": lambda message: 0,
    "range_pop": lambda: 0,
    "range_start": lambda message: 0,
    "range_end": nothing,
    "mark": nothing,
    "range": a_range,
}
PROFILER = {"init": nothing, "start": nothing, "stop": nothing, "profile": a_range}
