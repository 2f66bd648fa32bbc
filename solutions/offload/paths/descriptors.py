"""Descriptors: a list of pieces of memory to copy, as addresses and sizes on the host.

This module has the checks of such a list, ways to shorten it, and the pinned memory that it is
written into: used again and again, but never while a copy still reads it.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import deque

import numpy as np
import torch

from debubble.accelerator import Event, current
from debubble.contract.addresses import Extent, extent_of, numbers_at

WORD = 8
"""Bytes of a word, the smallest number that a kernel moves."""
VECTOR = 16
"""Bytes that a kernel can move by one instruction, if addresses and sizes are multiples of this."""
LAST_ADDRESS = np.iinfo(np.int64).max
Columns = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The three columns of a list of descriptors: source addresses, target addresses, and sizes in
bytes; int64 [N] each."""
SMALLEST = 64
"""Number of descriptors that fit into the smallest buffer of a pool, of 1.5 KiB."""


class Descriptors:
    """A list of pieces of memory to copy: sizes[i] bytes from address sources[i] to address
    targets[i]; each int64 [N]."""

    __slots__ = ("_extent", "_set_bits", "_sources", "_table", "_targets", "sizes", "start")

    sizes: np.ndarray
    start: int | None
    """The address of the lists if they follow each other in memory, as in a pool's buffer."""
    _sources: np.ndarray | None
    _targets: np.ndarray | None
    _table: np.ndarray | None
    """The numbers of all three lists, int64 [3 N], if they follow each other."""
    _extent: Extent | None
    _set_bits: int | None

    def __init__(self, sources: np.ndarray, targets: np.ndarray, sizes: np.ndarray) -> None:
        self._sources, self._targets, self.sizes = sources, targets, sizes
        self.start = self._table = self._extent = self._set_bits = None

    @classmethod
    def of(cls, src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> Descriptors:
        """Returns the descriptors in three CPU int64 tensors [N], whose memory they share.

        Raises ValueError for other tensors, or for tensors of different lengths.
        """
        columns = (src, dst, sizes)
        if are_one_table(columns):
            return cls._in_table(src.data_ptr(), src.numel(), columns)
        if not (
            src.dtype is dst.dtype is sizes.dtype is torch.int64
            and (src.is_cpu and dst.is_cpu and sizes.is_cpu)
            and src.dim() == 1
            and src.shape == dst.shape == sizes.shape
        ):
            raise ValueError(_misfit({"src_addrs": src, "dst_addrs": dst, "sizes": sizes}))
        return cls(src.numpy(), dst.numpy(), sizes.numpy())

    @classmethod
    def _in_table(cls, start: int, count: int, owner: object) -> Descriptors:
        """Returns the descriptors of three lists that follow each other from the address `start`
        on. One view costs the host less than three, and one reduction sees all numbers."""
        table = numbers_at(start, 3 * count, owner)
        found = cls.__new__(cls)
        found.sizes, found.start, found._table = table[2 * count :], start, table
        found._sources = found._targets = found._extent = found._set_bits = None
        return found

    @property
    def sources(self) -> np.ndarray:
        if self._sources is None:
            self._sources = self._part(0)
        return self._sources

    @property
    def targets(self) -> np.ndarray:
        if self._targets is None:
            self._targets = self._part(1)
        return self._targets

    def _part(self, number: int) -> np.ndarray:
        """Returns list `number` of the table."""
        assert self._table is not None
        return self._table[number * len(self) : (number + 1) * len(self)]

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, part: slice | np.ndarray) -> Descriptors:
        """Returns the descriptors of some pieces, chosen by a slice of the list or by a bool array
        [N]."""
        return Descriptors(self.sources[part], self.targets[part], self.sizes[part])

    @property
    def extent(self) -> Extent:
        """The bytes of all pieces, of the smallest one, and of the largest one; 0 without any."""
        if self._extent is None:
            self._extent = extent_of(self.sizes)
        return self._extent

    def are_multiples(self, of: int) -> bool:
        """True if all addresses and sizes are multiples of `of`, which is a power of two."""
        if self._set_bits is None:
            table = self._table
            numbers = self.sources | self.targets | self.sizes if table is None else table
            self._set_bits = int(np.bitwise_or.reduce(numbers))
        return not self._set_bits & (of - 1)

    def dense(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns source addresses, target addresses and sizes, int64 [N] each and contiguous."""
        return (
            np.ascontiguousarray(self.sources),
            np.ascontiguousarray(self.targets),
            np.ascontiguousarray(self.sizes),
        )

    def cut(self, nbytes: int) -> Descriptors:
        """Returns descriptors of the same bytes in pieces of at most `nbytes` bytes, in the same
        order. Raises ValueError if `nbytes` is below 1."""
        if nbytes < 1:
            raise ValueError(f"pieces of {nbytes} bytes: they need at least 1")
        counts = -(-self.sizes // nbytes)
        piece = np.repeat(np.arange(len(self)), counts)
        first = np.cumsum(counts) - counts
        offset = (np.arange(len(piece)) - first[piece]) * nbytes
        left = self.sizes[piece] - offset
        return Descriptors(
            self.sources[piece] + offset, self.targets[piece] + offset, np.minimum(left, nbytes)
        )

    def check(self) -> None:
        """Raises ValueError, naming the descriptor, for a size below 0, an impossible address, or
        targets of two descriptors that overlap."""
        self._expect(self.sizes >= 0, "size", "sizes are at least 0")
        # Addresses of a piece without bytes don't matter: that of an empty tensor is null.
        is_empty, last_start = self.sizes == 0, LAST_ADDRESS - self.sizes
        for side, addresses in (("source", self.sources), ("target", self.targets)):
            can_be = (addresses > 0) & (addresses <= last_start)
            self._expect(can_be | is_empty, side, "is no memory")
        self._expect_disjoint_targets()

    def check_for_kernel(self) -> None:
        """Runs `check`, and raises ValueError also for a size or an address that is no multiple of
        8, naming the first descriptor that has one."""
        self.check()
        if not self.are_multiples(WORD):
            columns = {"size": self.sizes, "source": self.sources, "target": self.targets}
            odd = {side: numbers % WORD != 0 for side, numbers in columns.items()}
            first = int(np.logical_or.reduce([*odd.values()]).argmax())
            side = next(side for side, is_odd in odd.items() if is_odd[first])
            what = self.described(first, side)
            raise ValueError(f"{what} must be a multiple of 8 for a kernel")

    def described(self, index: int, side: str = "size") -> str:
        """Returns the start of an error message about descriptor `index`: its number, and its
        "size", "source" or "target", whichever `side` names."""
        if side == "size":
            return f"descriptor {index}: {int(self.sizes[index])} bytes:"
        addresses = self.sources if side == "source" else self.targets
        return f"descriptor {index}: its {side}, {self._place(index, addresses)},"

    def _place(self, index: int, addresses: np.ndarray) -> str:
        return f"{int(self.sizes[index])} bytes at {int(addresses[index]):#x}"

    def _expect(self, is_right: np.ndarray, side: str, problem: str) -> None:
        if not is_right.all():
            raise ValueError(f"{self.described(int(is_right.argmin()), side)} {problem}")

    def _expect_disjoint_targets(self) -> None:
        # If none overlap, each ends before the next begins. A piece of no bytes overlaps nothing.
        starts, ends = np.sort(self.targets), np.sort(self.targets + self.sizes)
        if (starts[1:] < ends[:-1]).any():
            index, earlier = self._first_overlap()
            raise ValueError(
                f"{self.described(index, 'target')} overlaps that of descriptor {earlier}, "
                f"{self._place(earlier, self.targets)}"
            )

    def _first_overlap(self) -> tuple[int, int]:
        """Returns (index of the first descriptor whose target overlaps an earlier one's, index of
        that earlier descriptor)."""
        earlier: list[tuple[int, int, int]] = []
        for index in np.flatnonzero(self.sizes > 0).tolist():
            start, size = int(self.targets[index]), int(self.sizes[index])
            at = bisect(earlier, (start,))
            for other_start, other_end, other in earlier[max(at - 1, 0) : at + 1]:
                if start < other_end and other_start < start + size:
                    return index, other
            insort(earlier, (start, start + size, index))
        raise AssertionError("no two targets overlap")


def _misfit(columns: dict[str, torch.Tensor]) -> str:
    """Returns the error message that says why these tensors can't be descriptors."""
    for name, tensor in columns.items():
        if tensor.dtype != torch.int64 or not tensor.is_cpu or tensor.dim() != 1:
            return (
                f"{name} is {tensor.dtype} {list(tensor.shape)} on {tensor.device}: make it a CPU "
                "tensor [N] of int64"
            )
    lengths = ", ".join(f"{len(tensor)} {name}" for name, tensor in columns.items())
    return f"{lengths}: a piece needs one of each"


def are_one_table(columns: Columns) -> bool:
    """True if these are lists [N] of int64 in host memory that follow each other, as in a pool's
    buffer; N > 0."""
    src, dst, sizes = columns
    start, count = src.data_ptr(), src.numel()
    return (
        dst.data_ptr() == start + WORD * count
        and sizes.data_ptr() == start + 2 * WORD * count
        and dst.numel() == sizes.numel() == count > 0
        and (src.dtype is dst.dtype is sizes.dtype is torch.int64)
        and (src.is_cpu and src.dim() == 1)
        and (src.is_contiguous() and dst.is_contiguous() and sizes.is_contiguous())
    )


def first_of(buffers: torch.Tensor, count: int) -> torch.Tensor:
    """Returns room for `count` descriptors, int64 [3, count], in a pool's buffer [3, at least
    count]: three lists that follow each other."""
    return buffers.view(-1)[: 3 * count].view(3, count)


def merge_adjacent(
    src: np.ndarray, dst: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns source addresses, target addresses and sizes in bytes, int64 [M] each with M <= N,
    that copy the same bytes as the arguments, int64 [N] each.

    A piece that begins where the piece before it in the list ends, in the source and in the target,
    is joined to it. Pieces of 0 bytes are dropped, and do not separate their neighbours.
    """
    holds_bytes = sizes != 0
    if not holds_bytes.all():
        src, dst, sizes = src[holds_bytes], dst[holds_bytes], sizes[holds_bytes]
    if len(sizes) < 2:
        return src, dst, sizes
    continues = (np.diff(src) == sizes[:-1]) & (np.diff(dst) == sizes[:-1])
    first = np.concatenate(([0], np.flatnonzero(~continues) + 1))
    return src[first], dst[first], np.add.reduceat(sizes, first)


def _new_descriptor_buffers(capacity: int) -> torch.Tensor:
    """Returns an int64 tensor [3, capacity] for source addresses, target addresses and sizes,
    pinned if the platform can pin.

    Each list is dense, as the driver needs it.
    """
    return torch.empty((3, capacity), dtype=torch.int64, pin_memory=current().pin_memory)


class DescriptorPool:
    """A pool of pinned buffers for descriptors. A buffer is reused once the copy that reads it is
    done.

    The pool grows whenever all its buffers are in use, up to `most_buffers` if that is given. Then
    the host waits for the transfer that ends next.
    """

    def __init__(self, most_buffers: int | None = None) -> None:
        if most_buffers is not None and most_buffers < 1:
            raise ValueError(f"a pool of {most_buffers} buffers: it needs at least one")
        self.most_buffers = most_buffers
        self.num_buffers = 0
        self._free: list[torch.Tensor] = []
        self._in_flight: deque[tuple[torch.Tensor, Event]] = deque()

    def take(self, num_descriptors: int) -> torch.Tensor:
        """Returns a free buffer, int64 [3, at least num_descriptors], which is the caller's until
        `give_back`.

        Raises RuntimeError if there are `most_buffers` buffers, and none of them has been returned.
        One that has been returned and is too small makes room for a larger one.
        """
        self.reclaim()
        if self.num_buffers == self.most_buffers and not self._free:
            self._wait_for_the_oldest()
        fitting = [buffers for buffers in self._free if buffers.shape[1] >= num_descriptors]
        if not fitting:
            return self._grow(num_descriptors)
        smallest = min(fitting, key=lambda buffers: buffers.shape[1])
        self._free = [buffers for buffers in self._free if buffers is not smallest]
        return smallest

    def give_back(self, buffers: torch.Tensor, event: Event) -> None:
        """Lets `take` return `buffers` again once `event` is done. The caller has recorded `event`
        after the copy that reads them. Events complete in the order of these calls."""
        self._in_flight.append((buffers, event))

    def reclaim(self) -> None:
        """Frees the buffers that no copy reads any more, without a wait, and drops their events."""
        while self._in_flight and self._in_flight[0][1].query():
            self._free.append(self._in_flight.popleft()[0])

    def _wait_for_the_oldest(self) -> None:
        if not self._in_flight:
            raise RuntimeError(
                f"all {self.num_buffers} descriptor buffers are taken: release one first"
            )
        self._in_flight[0][1].synchronize()
        self.reclaim()

    def _grow(self, num_descriptors: int) -> torch.Tensor:
        """Returns a new buffer with room for `num_descriptors`, which replaces a free one if there
        are `most_buffers`."""
        if self.num_buffers == self.most_buffers:
            self._free.pop()
            self.num_buffers -= 1
        # Rounded up, so that a later transfer with a few descriptors more can use the buffer too.
        buffers = _new_descriptor_buffers(max(SMALLEST, next_power_of_2(num_descriptors)))
        self.num_buffers += 1
        return buffers


def next_power_of_2(number: int) -> int:
    """Returns the smallest power of two that is at least `number`, which is at least 1."""
    return 1 << (number - 1).bit_length()
