"""The allocator that PyTorch puts before the driver's: which allocations reach `cudaMalloc`.

PyTorch keeps the memory that tensors free, and cuts new tensors from it. It asks the driver for a
segment only if no free piece of the tensor's stream is large enough. Sizes and rules are those of
`c10/cuda/CUDACachingAllocator` with its default settings; pinned memory is rounded up to a power of
two, and kept whole.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable

SMALLEST = 512
"""The bytes of the smallest piece; all sizes are multiples of it."""
SMALL = 1 << 20
"""The bytes of the largest tensor that lies in a small segment."""
SMALL_SEGMENT, LARGE_SEGMENT = 2 << 20, 20 << 20
LARGE = 10 << 20
"""The bytes from which on a tensor gets a segment of its own, rounded up to a small segment."""

Grew = Callable[[str, int], None]


class Piece:
    """A part of a segment, in use or free, with its neighbours in the segment."""

    __slots__ = ("after", "before", "is_free", "pool", "size")

    def __init__(self, size: int, pool: tuple[int, bool]) -> None:
        self.size, self.pool = size, pool
        self.is_free = False
        self.before: Piece | None = None
        self.after: Piece | None = None


class DeviceCache:
    """The pieces of device memory. `begin` starts the counting, with nothing allocated.

    Tensors are freed by finalizers, at any line: `give` only stores the piece, and the next `take`
    puts it back.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.grew: Grew | None = None
        self.mallocs = 0
        """The number of calls of `cudaMalloc`, which PyTorch calls `num_device_alloc`."""
        self._stream: Callable[[], int] = int
        self._free: defaultdict[tuple[int, bool], list[tuple[int, int, Piece]]] = defaultdict(list)
        self._given: deque[Piece] = deque()

    def begin(self, stream: Callable[[], int]) -> None:
        """Starts counting, if it was not started. `stream` returns the current stream's number."""
        self._stream, self.is_on = stream, True

    def take(self, nbytes: int) -> Piece:
        """Returns a piece for a tensor of `nbytes` on the current stream."""
        self._put_back()
        size = max(SMALLEST, -(-nbytes // SMALLEST) * SMALLEST)
        pool = self._stream(), size <= SMALL
        piece = self._best(pool, size) or self._segment(pool, size)
        piece.is_free = False
        rest = piece.size - size
        if rest >= SMALLEST if pool[1] else rest > SMALL:
            self._cut(piece, size)
        return piece

    def give(self, piece: Piece) -> None:
        self._given.append(piece)

    def empty(self) -> None:
        """Returns the segments that are wholly free to the driver, as `torch.cuda.empty_cache()`
        does."""
        self._put_back()
        for free in self._free.values():
            free[:] = [entry for entry in free if entry[2].before or entry[2].after]

    def _best(self, pool: tuple[int, bool], size: int) -> Piece | None:
        """Removes and returns the smallest free piece that is large enough, or None."""
        free = self._free[pool]
        at = bisect_left(free, (size,))
        return free.pop(at)[2] if at < len(free) else None

    def _segment(self, pool: tuple[int, bool], size: int) -> Piece:
        small = -(-size // SMALL_SEGMENT) * SMALL_SEGMENT
        nbytes = SMALL_SEGMENT if pool[1] else LARGE_SEGMENT if size < LARGE else small
        self.mallocs += 1
        if self.grew is not None:
            self.grew("cudaMalloc", nbytes)
        return Piece(nbytes, pool)

    def _cut(self, piece: Piece, size: int) -> None:
        rest = Piece(piece.size - size, piece.pool)
        piece.size, rest.before, rest.after = size, piece, piece.after
        if rest.after is not None:
            rest.after.before = rest
        piece.after = rest
        self._insert(rest)

    def _put_back(self) -> None:
        while self._given:
            piece = self._given.popleft()
            for other in (piece.before, piece.after):
                if other is not None and other.is_free:
                    self._free[piece.pool].remove((other.size, id(other), other))
                    piece = _joined(piece, other)
            self._insert(piece)

    def _insert(self, piece: Piece) -> None:
        piece.is_free = True
        insort(self._free[piece.pool], (piece.size, id(piece), piece))


def _joined(one: Piece, other: Piece) -> Piece:
    """Returns two neighbours as one piece, the first of them in memory."""
    first, second = (one, other) if one.after is other else (other, one)
    first.size += second.size
    first.after = second.after
    if second.after is not None:
        second.after.before = first
    return first


class PinnedCache:
    """The blocks of pinned memory that were freed, by size. A block is reused at once: that a copy
    may still read it is not simulated."""

    def __init__(self) -> None:
        self.grew: Grew | None = None
        self.allocations = 0
        """The number of calls of `cudaHostAlloc`."""
        self.given: deque[int] = deque()
        """The sizes of freed blocks, which finalizers append to."""

    def take(self, nbytes: int) -> int:
        """Counts an allocation, and returns the size of its block."""
        size = 1 << max(nbytes - 1, 0).bit_length()
        try:
            self.given.remove(size)
        except ValueError:
            self.allocations += 1
            if self.grew is not None:
                self.grew("cudaHostAlloc", size)
        return size


DEVICE, PINNED = DeviceCache(), PinnedCache()
"""The caches of this process."""
