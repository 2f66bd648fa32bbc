"""Descriptors: a list of pieces of memory to copy, as addresses and sizes on the host.

This module has the checks of such a list, ways to shorten it, and the pinned memory that it is
written into: used again and again, but never while a copy still reads it.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch

from debubble.accelerator import Event, current

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


@dataclass(eq=False, slots=True)
class Descriptors:
    """A list of pieces of memory to copy: sizes[i] bytes from address sources[i] to address
    targets[i]; each int64 [N]."""

    sources: np.ndarray
    targets: np.ndarray
    sizes: np.ndarray
    _set_bits: int | None = field(default=None, init=False, repr=False)
    """The bitwise or of all addresses and sizes; None until `are_multiples` first needs it."""

    @classmethod
    def of(cls, src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> Descriptors:
        """Returns the descriptors in three CPU int64 tensors [N], whose memory they share.

        Raises ValueError for other tensors, or for tensors of different lengths.
        """
        if not (
            src.dtype is dst.dtype is sizes.dtype is torch.int64
            and (src.is_cpu and dst.is_cpu and sizes.is_cpu)
            and src.dim() == 1
            and src.shape == dst.shape == sizes.shape
        ):
            raise ValueError(_misfit({"src_addrs": src, "dst_addrs": dst, "sizes": sizes}))
        return cls(src.numpy(), dst.numpy(), sizes.numpy())

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, part: slice | np.ndarray) -> Descriptors:
        """Returns the descriptors of some pieces, chosen by a slice of the list or by a bool array
        [N]."""
        return Descriptors(self.sources[part], self.targets[part], self.sizes[part])

    @property
    def num_bytes(self) -> int:
        return int(np.add.reduce(self.sizes))

    @property
    def longest(self) -> int:
        """Bytes of the largest piece; 0 for an empty list."""
        return int(np.maximum.reduce(self.sizes, initial=0))

    @property
    def is_even(self) -> bool:
        """True if all pieces have one size, and for an empty list."""
        return self.num_bytes == len(self) * self.longest

    def are_multiples(self, of: int) -> bool:
        """True if all addresses and sizes are multiples of `of`, which is a power of two."""
        if self._set_bits is None:
            numbers = self.sources | self.targets | self.sizes
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
        return f"descriptor {index}: its {side}, {self._extent(index, addresses)},"

    def _extent(self, index: int, addresses: np.ndarray) -> str:
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
                f"{self._extent(earlier, self.targets)}"
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


def are_side_by_side(columns: Columns) -> bool:
    """True if the three numbers of each descriptor are adjacent in memory, as in a pool's
    buffer."""
    start = columns[0].data_ptr()
    return columns[1].data_ptr() == start + WORD and columns[2].data_ptr() == start + 2 * WORD


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

    The three numbers of a descriptor lie side by side, so that they are one read over the link.
    """
    return torch.empty((capacity, 3), dtype=torch.int64, pin_memory=current().pin_memory).t()


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
