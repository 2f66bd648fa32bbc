"""Descriptors: a list of pieces of memory to copy, as addresses and sizes on the host."""

from __future__ import annotations

from bisect import bisect, insort
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

WORD = 8
"""Bytes that a kernel moves as one number."""
VECTOR = 16
"""Bytes that it can move as one instruction."""
LAST_ADDRESS = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Descriptors:
    """Piece i: sizes[i] bytes from address sources[i] to address targets[i]; each int64 [N]."""

    sources: np.ndarray
    targets: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> Descriptors:
        """Those in three CPU int64 tensors [N]; whose memory they share.

        ValueError for other tensors, or for tensors of different lengths.
        """
        named = {"src_addrs": src, "dst_addrs": dst, "sizes": sizes}
        for name, tensor in named.items():
            if tensor.dtype != torch.int64 or not tensor.is_cpu or tensor.dim() != 1:
                raise ValueError(
                    f"{name} is {tensor.dtype} {list(tensor.shape)} on {tensor.device}: make it a "
                    "CPU tensor [N] of int64"
                )
        if not len(src) == len(dst) == len(sizes):
            lengths = ", ".join(f"{len(tensor)} {name}" for name, tensor in named.items())
            raise ValueError(f"{lengths}: a piece needs one of each")
        return cls(src.numpy(), dst.numpy(), sizes.numpy())

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, part: slice | np.ndarray) -> Descriptors:
        """Of some pieces: a slice, or bool [N] that says which."""
        return Descriptors(self.sources[part], self.targets[part], self.sizes[part])

    @property
    def num_bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def is_even(self) -> bool:
        """Whether all pieces have one size."""
        return len(self) == 0 or bool(self.sizes.min() == self.sizes.max())

    def are_multiples(self, of: int) -> bool:
        """Whether all addresses and sizes are, of a power of two."""
        return not self._set_bits & (of - 1)

    @cached_property
    def _set_bits(self) -> int:
        """Those that are set in any address or size: asked for more than once in a copy."""
        return int(np.bitwise_or.reduce(self.sources | self.targets | self.sizes, initial=0))

    def dense(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sources, targets and sizes, each without gaps in memory."""
        return (
            np.ascontiguousarray(self.sources),
            np.ascontiguousarray(self.targets),
            np.ascontiguousarray(self.sizes),
        )

    def cut(self, nbytes: int) -> Descriptors:
        """The same bytes in pieces of at most `nbytes` bytes, in the same order."""
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
        """ValueError, naming the descriptor, for a size below 0, an address that can't be one, or
        bytes that two of them would write."""
        self._expect(self.sizes >= 0, "size", "sizes are at least 0")
        # Of a piece without bytes the addresses don't matter: that of an empty tensor is null.
        is_empty, last_start = self.sizes == 0, LAST_ADDRESS - self.sizes
        for side, addresses in (("source", self.sources), ("target", self.targets)):
            can_be = (addresses > 0) & (addresses <= last_start)
            self._expect(can_be | is_empty, side, "is no memory")
        self._expect_disjoint_targets()

    def check_for_kernel(self) -> None:
        """`check`, and ValueError for a size or an address that is no multiple of 8."""
        self.check()
        if not self.are_multiples(WORD):
            columns = {"size": self.sizes, "source": self.sources, "target": self.targets}
            for side, numbers in columns.items():
                self._expect(numbers % WORD == 0, side, "must be a multiple of 8 for a kernel")

    def described(self, index: int, side: str = "size") -> str:
        """How an error begins that is about the size of a descriptor, its source or its target."""
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
        # Where none overlap, each ends before the next begins; one of no bytes is in nobody's way.
        starts, ends = np.sort(self.targets), np.sort(self.targets + self.sizes)
        if (starts[1:] < ends[:-1]).any():
            index, earlier = self._first_overlap()
            raise ValueError(
                f"{self.described(index, 'target')} overlaps that of descriptor {earlier}, "
                f"{self._extent(earlier, self.targets)}"
            )

    def _first_overlap(self) -> tuple[int, int]:
        """The first descriptor whose target overlaps an earlier one's, and that one."""
        earlier: list[tuple[int, int, int]] = []
        for index in np.flatnonzero(self.sizes > 0).tolist():
            start, size = int(self.targets[index]), int(self.sizes[index])
            at = bisect(earlier, (start,))
            for other_start, other_end, other in earlier[max(at - 1, 0) : at + 1]:
                if start < other_end and other_start < start + size:
                    return index, other
            insort(earlier, (start, start + size, index))
        raise AssertionError("no two targets overlap")
