"""KV blocks between GPU and CPU memory, in one direction: transfers that the host never waits for.

What holds by itself: the transfers of one handler run one after another, in the order in which they
were asked for, and each of them behind all that its compute stream had to do at that moment.

What the caller sees to: compute that reads what a load brings, or that writes to a GPU block which
a store still reads, waits for it by `make_stream_wait`. And a CPU block may be loaded or written to
again once `get_finished` of the handler of the stores has reported it: two handlers know nothing of
one another. `LRUBlockManager` finds no block, and gives none away, earlier than that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import cycle
from weakref import finalize

import numpy as np
import torch

from debubble.accelerator import Event, Stream, current

from .memory.blocks import Blocks, Pieces, checked_blocks, pieces_of
from .memory.kv_tensors import KVGroup, check_memory, may_overlap
from .paths.descriptors import DescriptorPool, Descriptors
from .selection import _select_swap_blocks_fn
from .transfers import Transfer, TransferResult, order_transfer

NUM_STREAMS = 4
"""The transfers of a handler take turns on them."""

Swap = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""Copies what three CPU tensors int64 [N] describe: addresses of sources and of destinations, and
sizes in bytes. On the current stream; the tensors stay as they are until that is done."""


class SingleDirectionOffloadingHandler:
    """Loads (CPU to GPU) or stores (`gpu_to_cpu`) of blocks of all `groups`.

    `swap` copies; by default it is chosen for these pages and this direction, and what it has to
    compile is compiled here. Transfers wait for `compute_stream`, by default for the stream that
    is current when they are asked for. `merge` makes one piece of blocks that lie side by side on
    both sides. `pool` is where descriptors are written. Whoever drops a handler waits for the
    transfers that are under way: the memory that they use may be freed with it.

    ValueError, naming the tensor, for one that is not on the device, or not in host memory that is
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
        self.swap = swap or _selected_swap(self.groups, gpu_to_cpu)
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

        For each group ids of GPU blocks, and of the CPU blocks that they are part of: a CPU block
        holds `block_size_factor` GPU blocks, of the first one `skip` are left out (for all groups
        the same, or one for each), and the last one may be filled in part.

        ValueError, with nothing queued and nothing changed, for a `job_id` that has not been
        reported yet, block ids out of range, lists that don't fit together, and destinations that
        would be written to twice.
        """
        if job_id in self._in_flight or job_id in self._finished:
            raise ValueError(f"job {job_id!r} is in use: get_finished has not reported it yet")
        try:
            pieces = self._pieces(gpu_blocks, cpu_blocks, skip)
        except ValueError as error:
            raise ValueError(f"job {job_id!r}: {error}") from None
        self._retire()
        self._in_flight[job_id] = self._submit(job_id, pieces)

    def get_finished(self) -> list[TransferResult]:
        """The transfers that have ended since the last call, in their order. Never waits."""
        self._retire()
        finished, self._finished = self._finished, {}
        return list(finished.values())

    def wait(self, job_ids: Iterable[Hashable]) -> None:
        """Lets the host wait until these have ended, and for nothing that was asked for later.

        `get_finished` reports them as ever. Jobs that are not under way are done.
        """
        for transfer in self._under_way(job_ids):
            transfer.end_event.synchronize()

    def make_stream_wait(self, job_ids: Iterable[Hashable], stream: Stream | None = None) -> None:
        """Lets what is queued on `stream` from now on wait until these have ended; not the host.

        `stream` is the current one by default. Jobs that are not under way are done.
        """
        stream = stream or current().current_stream()
        for transfer in self._under_way(job_ids):
            stream.wait_event(transfer.end_event)

    def _under_way(self, job_ids: Iterable[Hashable]) -> list[Transfer]:
        return [self._in_flight[job_id] for job_id in job_ids if job_id in self._in_flight]

    def _pieces(
        self,
        gpu_blocks: Sequence[Blocks],
        cpu_blocks: Sequence[Blocks],
        skip: int | Sequence[int],
    ) -> list[Pieces]:
        blocks = checked_blocks(self.groups, gpu_blocks, cpu_blocks, skip, self.gpu_to_cpu)
        pieces = [
            piece
            for group, of_group in zip(self.groups, blocks, strict=True)
            for piece in pieces_of(group, of_group, self.merge)
        ]
        if self._targets_may_overlap:
            descriptors = np.empty((3, _num_descriptors(pieces)), dtype=np.int64)
            self._write(pieces, descriptors)
            Descriptors(*descriptors).check()
        return pieces

    def _submit(self, job_id: Hashable, pieces: list[Pieces]) -> Transfer:
        num_descriptors = _num_descriptors(pieces)
        # Before an event is used again: those of transfers that have ended are what the pool asks.
        buffers = self.pool.take(num_descriptors)
        self._write(pieces, buffers.numpy()[:, :num_descriptors])
        src, dst, sizes = buffers[:, :num_descriptors].unbind()
        stream, start_event, end_event = next(self._streams), self._event(), self._event()
        compute_stream = self.compute_stream or current().current_stream()
        order_transfer(stream, compute_stream, self._computed, self._last_end())
        try:
            with stream:
                start_event.record()
                error = self._swap(src, dst, sizes) if num_descriptors else None
                end_event.record()
        except BaseException:
            stream.synchronize()  # Nobody will know what of it is under way.
            raise
        self.pool.give_back(buffers, end_event)
        num_bytes = sum(piece.num_bytes for piece in pieces)
        return Transfer(job_id, stream, start_event, end_event, src, dst, sizes, num_bytes, error)

    def _swap(self, src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> str | None:
        """What went wrong. Some of the pieces may be queued all the same, and read descriptors."""
        try:
            self.swap(src, dst, sizes)
        except Exception as error:
            return str(error) or type(error).__name__
        return None

    def _write(self, pieces: list[Pieces], descriptors: np.ndarray) -> None:
        """Fills int64 [3, N]: addresses of sources, of destinations, and sizes."""
        first, second, sizes = descriptors
        gpu, cpu = (first, second) if self.gpu_to_cpu else (second, first)
        start = 0
        for piece in pieces:
            part = slice(start, start + piece.num_descriptors)
            piece.write_to(gpu[part], cpu[part], sizes[part])
            start = part.stop

    def _retire(self) -> None:
        """Turns transfers that have ended into results, and their events into free ones."""
        while self._in_flight:
            oldest = next(iter(self._in_flight.values()))
            if not oldest.end_event.query():
                break
            del self._in_flight[oldest.job_id]
            self._finished[oldest.job_id] = oldest.result()
            self._free_events += (oldest.start_event, oldest.end_event)

    def _event(self) -> Event:
        return self._free_events.pop() if self._free_events else current().event()

    def _last_end(self) -> Event | None:
        last = next(reversed(self._in_flight.values()), None)
        return last.end_event if last else None


def _wait_for(transfers: Mapping[Hashable, Transfer]) -> None:
    for transfer in transfers.values():
        transfer.end_event.synchronize()


def _selected_swap(groups: Sequence[KVGroup], gpu_to_cpu: bool) -> Swap:
    """Chosen by the bytes that are copied of each page, or by none that a kernel can copy."""
    pairs = [pair for group in groups for pair in group.tensors]
    sizes = [pair.copied_bytes if pair.is_aligned else 1 for pair in pairs]
    swap = _select_swap_blocks_fn(sizes, gpu_to_cpu=gpu_to_cpu)
    swap.warm_up()
    return swap


def _num_descriptors(pieces: Sequence[Pieces]) -> int:
    return sum(piece.num_descriptors for piece in pieces)
