"""What an accelerator can do: the same for a real GPU and for the simulated one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True, slots=True)
class Work:
    """What one kernel has to do, for the cost model of sim: a roofline of operations and bytes.

    `bytes` of None means: every tensor argument read or written once. `flops` counts a
    multiply-add as two; `tensor_cores` says whether they run there. Ignored on CUDA.
    """

    flops: float = 0.0
    bytes: int | None = None
    tensor_cores: bool = True


class Event(Protocol):
    def record(self, stream: Stream | None = None) -> None: ...
    def wait(self, stream: Stream | None = None) -> None: ...
    def synchronize(self) -> None: ...
    def query(self) -> bool: ...


class Stream(Protocol):
    """Also a context manager: inside it, work goes to this stream."""

    def wait_event(self, event: Event) -> None: ...
    def wait_stream(self, stream: Stream) -> None: ...
    def record_event(self, event: Event | None = None) -> Event: ...
    def synchronize(self) -> None: ...
    def query(self) -> bool: ...
    def __enter__(self) -> Stream: ...
    def __exit__(self, *exception: object) -> None: ...


class Graph(Protocol):
    def capture(self) -> AbstractContextManager[None]:
        """Records the work of the block instead of running it; a host sync inside is an error."""

    def replay(self) -> None:
        """Runs the captured work again, on the addresses and Python values of its capture."""


class Accelerator(Protocol):
    name: str
    """"cuda" or "sim"."""
    description: str
    """What a reader should know of it: "NVIDIA H200", or "sim, modelled on NVIDIA H200"."""
    device: torch.device
    pin_memory: bool
    """Whether host memory can be pinned here: pass it on as `pin_memory=`."""
    modelled: bool
    """Whether times come from a cost model rather than from a clock."""

    def stream(self) -> Stream: ...
    def current_stream(self) -> Stream: ...
    def event(self) -> Event: ...
    def graph(self) -> Graph: ...
    def synchronize(self) -> None: ...

    def sleep(self, milliseconds: float) -> None:
        """Keeps the current stream busy for that long with one kernel, and returns at once."""

    def launch(
        self,
        kernel: Callable[..., Any],
        grid: tuple[int, ...] | None,
        *args: Any,
        work: Work | Callable[[], Work] | None = None,
        **meta: Any,
    ) -> Any:
        """Runs a kernel as one launch. `grid` is a Triton kernel's; None calls a plain function.

        `work` may be a function, so that a GPU never has to wait for what only sim needs.
        """
