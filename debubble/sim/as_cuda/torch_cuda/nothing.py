"""Functions that a script may call and that do nothing on sim: device choice and profiler marks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..refusing import check_index
from .streams import index_of


def nothing(*arguments: Any, **options: Any) -> None:
    """Replaces functions that have nothing to do on sim: takes any arguments and returns None."""


class Device:
    """Replaces `with torch.cuda.device(0):`, and has no effect. Raises RuntimeError for any other
    GPU."""

    def __init__(self, device: Any = None) -> None:
        self.idx = index_of(device)
        check_index(self.idx if self.idx != -1 else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


class DeviceOf(Device):
    """Replaces `with torch.cuda.device_of(tensor):`, and has no effect; the tensor may be on the
    CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if getattr(obj, "is_cuda", False) else -1)


@contextmanager
def a_range(msg: str = "", *arguments: Any, **options: Any) -> Iterator[None]:
    """Replaces `with torch.cuda.nvtx.range("step"):` and the profiler's `profile`, and marks
    nothing."""
    yield


NVTX = {
    "range_push": lambda msg: 0,
    "range_pop": lambda: 0,
    "range_start": lambda msg: 0,
    "range_end": nothing,
    "mark": nothing,
    "range": a_range,
}
PROFILER = {"init": nothing, "start": nothing, "stop": nothing, "profile": a_range}
