"""What an accelerator can do: the same for a real GPU and for the simulated one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, overload

from .addresses import ByAddress, MemoryRange

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    from ..timeline.data import TimelineData


@dataclass(frozen=True, slots=True)
class Work:
    """What one kernel has to do, for the cost model of sim: a roofline of operations and bytes.

    `bytes` of None means: every tensor argument read or written once, and what `by_address` names
    in device memory. `flops` counts a multiply-add as two; `tensor_cores` says whether they run
    there. `by_address` is what the kernel reaches by addresses that it was given: sim checks it,
    looks for races in it, and takes from it what goes over the link. Ignored on CUDA.
    """

    flops: float = 0.0
    bytes: int | None = None
    tensor_cores: bool = True
    by_address: ByAddress | None = None


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
        """Records the work of the block instead of running it; a host sync inside is an error.

        CaptureError inside another capture, and for a graph that holds one, before anything is
        touched. After an error in the block everything is as before, and the graph is empty.
        """

    def replay(self) -> None:
        """Runs the captured work again, on the addresses and Python values of its capture;
        CaptureError if there is none."""


Result = TypeVar("Result")
WorkOrMaker = Work | Callable[[], Work] | None


class Accelerator(Protocol):
    @property
    def name(self) -> Literal["cuda", "sim"]: ...

    @property
    def description(self) -> str:
        """What a reader should know of it: "NVIDIA H200", or "sim, modelled on NVIDIA H200"."""

    @property
    def device(self) -> torch.device: ...

    @property
    def pin_memory(self) -> bool:
        """Whether host memory can be pinned here: pass it on as `pin_memory=`."""

    @property
    def modelled(self) -> bool:
        """Whether times come from a cost model rather than from a clock."""

    def stream(self) -> Stream: ...
    def current_stream(self) -> Stream: ...
    def event(self) -> Event: ...
    def graph(self) -> Graph: ...
    def synchronize(self) -> None: ...

    def sleep(self, milliseconds: float) -> None:
        """Keeps the current stream busy for that long with one kernel, and returns at once."""

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
        """Runs a kernel as one launch. `grid` is a Triton kernel's, a tuple of 1 to 3 integers;
        None calls a plain function.

        `work` may be a function, so that a GPU never has to wait for what only sim needs. Pinned
        host tensors among the arguments are read when the kernel runs: leave them alone till then.
        On sim, RuntimeError before anything is changed for a piece of `work.by_address` that lies
        neither in device memory nor in pinned host memory.
        """

    def memory_at(self, address: int) -> MemoryRange | None:
        """The range of device memory or pinned host memory around an address; None for pageable
        host memory, for null, and for what is nobody's."""

    def copy_bytes(self, source: int, target: int, nbytes: int) -> None:
        """One asynchronous copy on the current stream, from address to address; the two say in
        which direction. RuntimeError for null."""

    @property
    def has_copy_batch(self) -> bool:
        """Whether the driver takes a batch of copies in one call."""

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

        `any_order`: sources may be read at any time from now on, and not only when the stream
        gets there. RuntimeError on the default stream, and for what the driver refuses, such as a
        piece of 0 bytes.
        """

    def register_host_memory(self, address: int, nbytes: int) -> None:
        """Page-locks host memory that there is, so that it counts as pinned. RuntimeError for
        memory that is pinned already, for 512 GiB or more in one call, or where nothing can be
        pinned."""

    def unregister_host_memory(self, address: int) -> None:
        """Ends a registration, by the address that it was made with; RuntimeError if there is
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
        """FlexAttention in the forward direction, compiled where there is a compiler.

        `query` [1, heads, T, D]; `key`, `value` [1, kv heads, slots, D], views with any strides but
        a dense last dimension; `block_mask` one row of blocks for each group of query tokens, the
        same for all heads, and a column behind the last block of a row. Returns [1, heads, T, D],
        in memory in the order of `query`; rows that may see nothing are 0. ValueError for
        arguments that don't fit; CaptureError for what would be compiled during a capture.
        """

    @property
    def flex_compilations(self) -> int:
        """How many kernels `flex_attention` has had compiled in this process."""

    def recording(
        self, timeline: TimelineData, most_calls: int | None = None
    ) -> AbstractContextManager[Callable[[], float]]:
        """Fills `timeline` with what happens in the block, once that has ended and the device is
        done; full, and `cut_off`, after `most_calls` calls of the host. Gives the recording's
        clock: microseconds since it began, as its host events have them."""

    def watching_for_syncs(self) -> AbstractContextManager[None]:
        """A block in which HostSyncError is raised where the host waits, as long as the rule of
        `contract.host_syncs` forbids that."""
