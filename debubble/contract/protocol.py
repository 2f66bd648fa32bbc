"""The protocol of an accelerator: the same for a real GPU and for the simulated one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, overload

from .addresses import ByAddress, MemoryRange
from .recorded import Also, HostTimes

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    from ..timeline.data import TimelineData


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one kernel, for the cost model of sim: a roofline of operations and bytes.

    `bytes` of None means that each tensor argument is read or written once, and so is the device
    memory that `by_address` names. `flops` counts a multiply-add as two; `tensor_cores` is True if
    they run there. `by_address` is the memory that the kernel reaches by addresses: sim checks it,
    looks for races in it, and derives the traffic over the link from it. Ignored on CUDA.
    """

    flops: float = 0.0
    bytes: int | None = None
    tensor_cores: bool = True
    by_address: ByAddress | None = None


Kind = TypeVar("Kind", bound=type)


def described_by(protocol: type) -> Callable[[Kind], Kind]:
    """Returns a decorator that gives methods of a class the docstrings of the same methods of
    `protocol`, where they have none, so that `help` shows them."""

    def describe(kind: Kind) -> Kind:
        for name, method in vars(kind).items():
            if callable(method) and not method.__doc__:
                method.__doc__ = getattr(getattr(protocol, name, None), "__doc__", None)
        return kind

    return describe


class Event(Protocol):
    """A mark in a stream."""

    def record(self, stream: Stream | None = None) -> None:
        """Puts the mark behind all work that was queued on `stream` so far, by default on the
        current stream."""

    def wait(self, stream: Stream | None = None) -> None:
        """Makes later work of `stream`, by default of the current stream, wait for the mark."""

    def synchronize(self) -> None:
        """Makes the host wait until the device has reached the mark."""

    def query(self) -> bool:
        """Returns True if the device has reached the mark. The host waits for nothing."""


class Stream(Protocol):
    """A stream, also a context manager: in its block the stream is the current one, to which work
    goes."""

    def wait_event(self, event: Event) -> None:
        """Makes later work of this stream wait for the event. The host goes on."""

    def wait_stream(self, stream: Stream) -> None:
        """Makes later work of this stream wait for all that is queued on `stream` now. The host
        goes on."""

    def record_event(self, event: Event | None = None) -> Event:
        """Records `event`, or a new one, behind all work queued on this stream, and returns it."""

    def synchronize(self) -> None:
        """Makes the host wait until the stream's work is done."""

    def query(self) -> bool:
        """Returns True if the stream's work is done. The host waits for nothing."""

    def __enter__(self) -> Stream: ...
    def __exit__(self, *exception: object) -> None: ...


class Graph(Protocol):
    def capture(self) -> AbstractContextManager[None]:
        """Captures the work of the block instead of running it; a host sync inside is an error.

        Raises CaptureError inside another capture, and for a graph that already holds one, before
        it changes anything. After an error in the block all state is as before, and the graph is
        empty.
        """

    def replay(self) -> None:
        """Runs the captured work again, on the addresses and Python values of its capture. Raises
        CaptureError if nothing was captured."""


Result = TypeVar("Result")
WorkOrMaker = Work | Callable[[], Work] | None


class Accelerator(Protocol):
    @property
    def name(self) -> Literal["cuda", "sim"]: ...

    @property
    def description(self) -> str:
        """The name to show to a reader: "NVIDIA H200", or "sim, modelled on NVIDIA H200"."""

    @property
    def device(self) -> torch.device: ...

    @property
    def pin_memory(self) -> bool:
        """True if this machine can pin host memory: pass it on to PyTorch as `pin_memory=`."""

    @property
    def modelled(self) -> bool:
        """True if times come from a cost model rather than from a clock."""

    def stream(self) -> Stream:
        """Returns a new stream. Use it as a context manager: work in its block goes to it."""

    def current_stream(self) -> Stream:
        """Returns the stream to which work goes here: the default stream outside of all blocks."""

    def event(self) -> Event:
        """Returns a new event, which is not recorded yet."""

    def graph(self) -> Graph:
        """Returns a new graph, which is empty: `with graph.capture():` fills it."""

    def synchronize(self) -> None:
        """Makes the host wait until all work of the device is done."""

    def sleep(self, milliseconds: float) -> None:
        """Keeps the current stream busy for `milliseconds` with one kernel, and returns at once."""

    @overload
    def launch(
        self,
        kernel: Callable[..., Result],
        grid: None,
        *args: object,
        work: WorkOrMaker = None,
        **meta: object,
    ) -> Result: ...
    @overload
    def launch(
        self,
        kernel: object,
        grid: tuple[int, ...],
        *args: object,
        work: WorkOrMaker = None,
        **meta: object,
    ) -> None:
        """Launches a Triton kernel with a `grid` of 1 to 3 integers. With None for a grid, calls a
        plain function and returns its result.

        `work` may be a function, so that a GPU never waits for a value that only sim needs. Pinned
        host tensors among the arguments are read when the kernel runs: leave them alone until then.
        On sim, raises RuntimeError before it changes anything if a piece of `work.by_address` lies
        neither in device memory nor in pinned host memory.
        """

    def memory_at(self, address: int) -> MemoryRange | None:
        """Returns the range of device memory or pinned host memory that contains an address.
        Returns None for pageable host memory, for null, and for an unallocated address."""

    def copy_bytes(self, source: int, target: int, nbytes: int) -> None:
        """Copies `nbytes` from address to address, asynchronously on the current stream; the
        addresses decide the direction. Raises RuntimeError for null."""

    @property
    def has_copy_batch(self) -> bool:
        """True if `copy_batch` works here: the driver takes a batch of copies in one call."""

    def copy_batch(
        self,
        sources: np.ndarray,
        targets: np.ndarray,
        sizes: np.ndarray,
        *,
        any_order: bool = False,
    ) -> None:
        """Copies `sizes[i]` bytes from `sources[i]` to `targets[i]`, on the current stream, in one
        call of the driver: contiguous int64 arrays [N], N = 0 does nothing.

        `any_order`: sources may be read at any time from now on, and not only when the stream gets
        there. Raises RuntimeError on the default stream, and for pieces that the driver refuses,
        such as one of 0 bytes.
        """

    def copy_lists(
        self, sources: int, targets: int, sizes: int, count: int, *, any_order: bool = False
    ) -> None:
        """Copies as `copy_batch` does what three lists at these addresses in host memory describe,
        int64 [count] each, with count > 0. The lists are not checked, and may be changed at
        once."""

    def register_host_memory(self, address: int, nbytes: int) -> None:
        """Page-locks existing host memory, so that it counts as pinned. Raises RuntimeError for
        memory that is already pinned, for 512 GiB or more in one call, or if memory can't be pinned
        here."""

    def unregister_host_memory(self, address: int) -> None:
        """Ends the registration that was made with this address. Raises RuntimeError if there is
        none."""

    def flex_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        block_mask: BlockMask,
        scale: float | None = None,
    ) -> torch.Tensor:
        """Runs FlexAttention in the forward direction, compiled if there is a compiler.

        `query` [1, heads, T, D]; `key`, `value` [1, kv heads, slots, D], views with any strides but
        a dense last dimension; `block_mask` one row of blocks for each group of query tokens, the
        same for all heads, and a column after the last block of a row. Returns [1, heads, T, D], in
        memory in the order of `query`; rows that may attend to no key are 0. Raises ValueError for
        arguments that don't fit, and CaptureError for a call that would be compiled during a
        capture.
        """

    @property
    def flex_compilations(self) -> int:
        """The number of kernels that `flex_attention` has had compiled in this process."""

    def recording(
        self,
        timeline: TimelineData,
        most_calls: int | None = None,
        host: HostTimes | None = None,
        also: frozenset[Also] = frozenset(),
    ) -> AbstractContextManager[Callable[[], float]]:
        """Returns a context manager that fills `timeline` with the events of its block, once the
        block has ended and the device is done. After `most_calls` calls of the host the timeline is
        full, and `cut_off` is True. Yields the recording's clock: a function that returns the
        microseconds since the recording began, on the scale of its host events. `also` names
        what the timeline holds beside calls, waits and the device's work."""

    def watching_for_compiles(self) -> AbstractContextManager[None]:
        """Returns a context manager. In its block a compilation raises UnexpectedCompile, if the
        rule of `contract.compiles` forbids it."""

    def proving_races(self) -> AbstractContextManager[Sequence[object]]:
        """Returns a context manager that yields a list. Once the block has ended, the list holds
        the races proved in it, those of recordings included; each prints as a sentence. A GPU
        proves none."""

    def watching_for_syncs(self) -> AbstractContextManager[None]:
        """Returns a context manager. In its block a wait of the host raises HostSyncError, if the
        rule of `contract.host_syncs` forbids the wait."""
