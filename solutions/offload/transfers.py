"""Transfers of one direction: queued, in flight one after the other, and reported at their end.

The queue ensures that its transfers run one after another, in the order in which they were queued,
and each after all the work that its compute stream had at that moment. The host never waits for a
transfer.

The caller ensures two things. Compute that reads the blocks of a load, or that writes to a GPU
block that a store still reads, waits for it by `make_stream_wait`. And a CPU block is loaded or
written to again only after the stores' queue has reported it by `get_finished`, since two queues
don't know of one another. `LRUBlockManager` neither finds nor allocates a block before that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple
from weakref import finalize

import torch

from debubble.accelerator import Event, Stream, current

from .memory.blocks import (
    Blocks,
    GroupBlocks,
    Pieces,
    check_targets,
    checked_blocks,
    num_descriptors,
    write_descriptors,
)
from .memory.kv_tensors import KVGroup, check_memory, may_overlap
from .paths.descriptors import DescriptorPool, first_of

NUM_STREAMS = 4
"""Number of streams that the transfers of a queue use in turn."""

Swap = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""A function that copies what three CPU tensors int64 [N] describe: addresses of sources and of
destinations, and sizes in bytes. The copies run on the current stream, and the tensors stay
unchanged until they are done."""


class TransferResult(NamedTuple):
    job_id: Hashable
    success: bool
    num_bytes: int
    """Bytes that were copied; 0 if the transfer failed, since it may have stopped at any byte."""
    error: str | None
    """The reason why the transfer failed; None if all its bytes have arrived."""


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """A transfer whose copies are queued on `stream` between two events. Its descriptors may be
    read until the second event has passed."""

    job_id: Hashable
    stream: Stream
    start_event: Event
    end_event: Event
    batch_src: torch.Tensor
    """CPU int64 [N]: addresses to copy from; in pinned memory if a kernel reads them."""
    batch_dst: torch.Tensor
    """CPU int64 [N]: addresses to copy to; in pinned memory if a kernel reads them."""
    batch_sizes: torch.Tensor
    """CPU int64 [N]: bytes of each piece; in pinned memory if a kernel reads them."""
    num_bytes: int
    """Bytes of all pieces together."""
    error: str | None = None
    """The reason why not all of the copies could be queued; None if they could."""

    def result(self) -> TransferResult:
        """Returns the result to report of the transfer, once `end_event` has passed."""
        success = self.error is None
        return TransferResult(self.job_id, success, self.num_bytes if success else 0, self.error)


class TransferQueue(ABC):
    """Loads (CPU to GPU) or stores (`gpu_to_cpu`) of blocks of all `groups`.

    `swap` copies; by default the handler selects one when it is made. Transfers wait for
    `compute_stream`, by default for the stream that is current when they are queued. `merge` lets a
    handler make one piece of blocks that lie side by side in both memories, and `pool` provides
    memory for its descriptors. Dropping a handler waits for its transfers in flight, since the
    memory that they use may be freed with it.

    Raises ValueError, naming the tensor, if one is not on the device, or not in host memory that is
    pinned or registered.
    """

    def __init__(
        self,
        groups: Sequence[KVGroup],
        *,
        gpu_to_cpu: bool,
        swap: Swap | None = None,
        compute_stream: Stream | None = None,
        merge: bool = True,
        pool: DescriptorPool | None = None,
    ) -> None:
        self.groups, self.gpu_to_cpu = list(groups), gpu_to_cpu
        check_memory(current(), self.groups)
        self.swap = swap or self._select_swap()
        self.compute_stream = compute_stream
        self.merge = merge
        self.pool = pool or DescriptorPool()
        self._targets_may_overlap = may_overlap(self.groups, "cpu" if gpu_to_cpu else "gpu")
        self._streams = cycle([current().stream() for _ in range(NUM_STREAMS)])
        self._computed = current().event()
        self._free_events: list[Event] = []
        self._in_flight: OrderedDict[Hashable, Transfer] = OrderedDict()
        self._finished: dict[Hashable, TransferResult] = {}
        finalize(self, _wait_for, self._in_flight).atexit = False

    def transfer_async(
        self,
        job_id: Hashable,
        gpu_blocks: Sequence[Blocks],
        cpu_blocks: Sequence[Blocks],
        skip: int | Sequence[int] = 0,
    ) -> None:
        """Queues one transfer and returns at once; `get_finished` reports it, also if it fails.

        For each group, `gpu_blocks` has ids of GPU blocks and `cpu_blocks` those of the CPU blocks
        that they are part of. A CPU block holds `block_size_factor` GPU blocks. `skip` GPU blocks
        of the first CPU block are left out (one number for all groups, or one for each), and the
        last CPU block may be filled in part.

        Raises ValueError, with nothing queued and nothing changed, for a `job_id` that has not been
        reported yet, block ids out of range, lists that don't fit together, and destinations that
        would be written to twice.
        """
        if job_id in self._in_flight or job_id in self._finished:
            raise ValueError(f"job {job_id!r} is in use: get_finished has not reported it yet")
        try:
            blocks = checked_blocks(self.groups, gpu_blocks, cpu_blocks, skip, self.gpu_to_cpu)
            pieces = self._plan(blocks)
            if self._targets_may_overlap:
                check_targets(pieces, self.gpu_to_cpu)
        except ValueError as error:
            raise ValueError(f"job {job_id!r}: {error}") from None
        self._retire()
        try:
            self._in_flight[job_id] = self._submit(job_id, pieces)
        except BaseException:
            current().synchronize()  # It is unknown which copies are in flight.
            raise

    def get_finished(self) -> list[TransferResult]:
        """Returns the results of the transfers that have ended since the last call, in the order in
        which they were queued. Never waits."""
        self._retire()
        finished = list(self._finished.values())
        self._finished = {}
        return finished

    def wait(self, job_ids: Iterable[Hashable]) -> None:
        """Makes the host wait until these transfers have ended, and for none that was queued later.

        `get_finished` reports them as usual. Jobs that are not in flight count as done.
        """
        for transfer in self._under_way(job_ids):
            transfer.end_event.synchronize()

    def make_stream_wait(self, job_ids: Iterable[Hashable], stream: Stream | None = None) -> None:
        """Makes work that is queued on `stream` from now on wait until these transfers have ended.
        The host doesn't wait.

        `stream` is by default the current one. Jobs that are not in flight count as done.
        """
        stream = stream or current().current_stream()
        for transfer in self._under_way(job_ids):
            stream.wait_event(transfer.end_event)

    @abstractmethod
    def _select_swap(self) -> Swap:
        """Returns the function that copies the blocks of these groups; each handler selects its
        own."""

    @abstractmethod
    def _plan(self, blocks: Sequence[GroupBlocks]) -> list[Pieces]:
        """Returns the pieces of memory to copy for these blocks, one GroupBlocks for each group;
        each handler decides which blocks become one piece."""

    @abstractmethod
    def _submit(self, job_id: Hashable, pieces: Sequence[Pieces]) -> Transfer:
        """Calls `_queue` with a buffer for the descriptors of `pieces`, and returns its transfer;
        each handler provides buffers in its own way."""

    def _queue(
        self, job_id: Hashable, pieces: Sequence[Pieces], buffers: torch.Tensor, end_event: Event
    ) -> Transfer:
        """Writes descriptors into `buffers`, a CPU tensor int64 [3, at least as many as there are],
        and queues their copies on a stream of the queue, followed by `end_event`. The buffers have
        to stay unchanged until that event has passed, or until `transfer_async` has raised."""
        count = num_descriptors(pieces)
        lists = first_of(buffers, count)
        write_descriptors(pieces, lists.numpy(), self.gpu_to_cpu)
        src, dst, sizes = lists.unbind()
        stream, start_event = next(self._streams), self._event()
        compute_stream = self.compute_stream or current().current_stream()
        order_transfer(stream, compute_stream, self._computed, self._last_end())
        with stream:
            start_event.record()
            error = self._swap(src, dst, sizes) if count else None
            end_event.record()
        num_bytes = sum(piece.num_bytes for piece in pieces)
        return Transfer(job_id, stream, start_event, end_event, src, dst, sizes, num_bytes, error)

    def _swap(self, src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> str | None:
        """Queues the copies that the tensors describe. Returns an error's text, or None. After an
        error some of the pieces may still be queued, and read their descriptors later."""
        try:
            self.swap(src, dst, sizes)
        except Exception as error:
            return str(error) or type(error).__name__
        return None

    def _retire(self) -> None:
        """Moves transfers that have ended from `_in_flight` to `_finished`, as results, and keeps
        their events for reuse."""
        while self._in_flight:
            oldest = next(iter(self._in_flight.values()))
            if not oldest.end_event.query():
                break
            # In this order, so that an interruption between any two lines loses at most an event.
            self._finished[oldest.job_id] = oldest.result()
            del self._in_flight[oldest.job_id]
            self._free_events += (oldest.start_event, oldest.end_event)

    def _under_way(self, job_ids: Iterable[Hashable]) -> list[Transfer]:
        return [self._in_flight[job_id] for job_id in job_ids if job_id in self._in_flight]

    def _event(self) -> Event:
        return self._free_events.pop() if self._free_events else current().event()

    def _last_end(self) -> Event | None:
        last = next(reversed(self._in_flight.values()), None)
        return last.end_event if last else None


LoadingHandler = Callable[[Sequence[KVGroup]], TransferQueue]
"""A function that makes the handler of a serving loop's loads, for some groups: the loop's variants
differ only in this function."""


def order_transfer(
    stream: Stream, compute_stream: Stream, computed: Event, previous_end: Event | None
) -> None:
    """Makes `stream` wait for all work that `compute_stream` has by now, and for the transfer
    before this one. The host doesn't wait.

    A store must not read a block that is still being computed. A load must not overtake the zeroing
    of the block that it fills, or the last reader of the block's old contents. And the transfers of
    one direction end in the order in which they were queued, each on a stream of its own.

    The caller reuses the event `computed` for each transfer. A wait refers to the record before it,
    even if the event is recorded again while the wait is in flight.
    """
    computed.record(compute_stream)
    stream.wait_event(computed)
    if previous_end is not None:
        stream.wait_event(previous_end)


def _wait_for(transfers: Mapping[Hashable, Transfer]) -> None:
    for transfer in transfers.values():
        transfer.end_event.synchronize()
