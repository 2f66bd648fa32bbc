"""Allocations of sim: all tensors that view the same device memory share one Block."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol
from weakref import WeakSet, ref

import numpy as np
import torch

from debubble.contract.source_line import SourceLine, source_line

from . import caching


class Access(NamedTuple):
    """An access to a block: the number of the stream, the place in the stream's queue, and the
    source line."""

    stream: int
    order: int
    source: SourceLine | None
    says_where: bool = True
    """False for a kernel: it doesn't say which part of its tensors it touches."""


Span = tuple[int, int]
"""The addresses of a range's first byte and of the byte after its last."""


class Part(Protocol):
    """A part of a tensor's bytes, as ranges of addresses."""

    def ranges(self) -> tuple[np.ndarray, np.ndarray]: ...
    def span(self) -> Span: ...


class Past(NamedTuple):
    """A past access with the bytes that it touched: all elements of a CPU tensor, some of them, or
    a span of pinned host memory, where a tensor would keep the memory from being freed."""

    access: Access
    where: torch.Tensor | Span | Part
    wrote: bool


class Freed(NamedTuple):
    """Freed device memory that queued work may still use."""

    owner: int
    """The number of the stream on which the memory was allocated. PyTorch may reuse it at once for
    the next allocation on that stream."""
    nbytes: int
    uses: tuple[Access, ...]
    """The last access of each stream that may still use the memory."""


class FreeWatcher(Protocol):
    def freed(self) -> None: ...


class Log(Protocol):
    """A log of the accesses to the blocks that it follows, by their bytes."""

    def follow(self, block: Block) -> None: ...


class InUse:
    """The bytes of device memory that tensors occupy, rounded as PyTorch's allocator rounds them.
    Counted only inside `as_cuda`."""

    def __init__(self) -> None:
        self.is_counted = False
        self.now = self.most = self.allocations = 0
        self.cached = 0
        """The largest number of bytes in use at once since the allocator's cache was emptied."""
        self.limit: int | None = None
        """The number of bytes that can be in use, or None if only this machine's memory is the
        limit."""

    def take(self, nbytes: int) -> int:
        """Counts an allocation of `nbytes`, and returns its size rounded up to a multiple of
        ROUNDED_TO.

        Raises torch.OutOfMemoryError if the bytes in use would exceed the limit.
        """
        self.expect_room(nbytes)
        rounded = -(-nbytes // ROUNDED_TO) * ROUNDED_TO
        self.now += rounded
        self.most = max(self.most, self.now)
        self.cached = max(self.cached, self.now)
        self.allocations += bool(rounded)
        return rounded

    def release(self, nbytes: int) -> None:
        self.now -= nbytes

    def expect_room(self, nbytes: int) -> None:
        """Raises torch.OutOfMemoryError if `nbytes` more bytes exceed the limit, even after a
        garbage collection."""
        if self.limit is None or self.now + nbytes <= self.limit:
            return
        gc.collect()
        if self.now + nbytes > self.limit:
            raise out_of_memory(nbytes, self.limit - self.now)


def out_of_memory(nbytes: int | None = None, free: int | None = None) -> torch.OutOfMemoryError:
    """Returns an error for an allocation of `nbytes` while `free` bytes are free. Its text begins
    like PyTorch's own, because programs search for these words."""
    tried = "" if nbytes is None else f" Tried to allocate {nbytes / GIB:.2f} GiB."
    there = "" if free is None else f" and {free / GIB:.2f} GiB of it are free"
    return torch.OutOfMemoryError(
        f"CUDA out of memory.{tried} On sim the GPU's memory is this machine's own{there}: choose "
        "a smaller size, or a machine with more memory"
    )


NO_STREAMS: frozenset[int] = frozenset()
GIB = 1 << 30
NO_MEMORY = "DefaultCPUAllocator"
"""The allocator that PyTorch's error names when the CPU is out of memory."""
ROUNDED_TO = 512
"""PyTorch's allocator rounds sizes up to a multiple of this many bytes."""
MOST_FREED = 256
"""The most freed blocks for which the line that freed them is remembered."""
IN_USE = InUse()


class Block:
    """One allocation of device memory or pinned host memory, and the accesses to it. Its watchers
    are told when the last tensor that views it is freed."""

    __slots__ = (
        "__weakref__",
        "counted",
        "elsewhere",
        "is_on_map",
        "kept_for",
        "last_read",
        "last_write",
        "leaves",
        "left_by",
        "log",
        "made_by",
        "others",
        "owner",
        "past",
        "replays",
        "returns",
        "watchers",
    )
    place: Literal["device", "pinned"]

    def __init__(self) -> None:
        self.last_write: Access | None = None
        self.last_read: Access | None = None
        """The last read after the last write."""
        self.others: dict[tuple[int, bool], Access] | None = None
        """Other accesses that nothing orders with `last_write` and `last_read`, such as accesses to
        another part: the last one by the stream's number, and by True for a write."""
        self.past: list[Past] | None = None
        """The latest accesses with the bytes that they touched, while the block is not used by
        address."""
        self.log: Log | None = None
        """The log of the accesses to the block; None until it is used by address."""
        self.made_by: Access | None = None
        self.replays: int | None = None
        """The number of replays that wrote the block; None if it is no result of a graph."""
        self.is_on_map = False
        self.counted = 0
        """The number of bytes that IN_USE counts for the block."""
        self.owner = 0
        """The number of the stream on which the block was allocated."""
        self.returns: deque[Freed] | None = None
        """The queue that gets the freed memory if streams other than the owner may still use it."""
        self.leaves: deque[Freed] | None = None
        """The queue that gets the freed memory if its owner may still use it; None while there is
        only one stream."""
        self.left_by: Access | None = None
        """The last access to an earlier, freed tensor in whose memory the block may lie."""
        self.elsewhere: dict[int, Access] | None = None
        """The last access of each stream but the owner's, by the stream's number."""
        self.kept_for: frozenset[int] = NO_STREAMS
        """The numbers of the streams given to `record_stream`: the memory is not reused before they
        are done with it."""
        self.watchers: WeakSet[FreeWatcher] | None = None

    def span(self) -> Span:
        """Returns the addresses of the block's first byte and of the byte after its last."""
        raise NotImplementedError

    def hold(self) -> object:
        """Returns an object that keeps the block's bytes, but not the block itself, from being
        freed."""
        raise NotImplementedError

    def forget_accesses(self) -> None:
        """Forgets the block's accesses. Call it when all queued work is done, or was never
        queued."""
        self.last_write = self.last_read = self.others = self.made_by = self.past = None

    def used_by(self, access: Access) -> None:
        """Stores `access` as the last one of its stream, unless that stream is the block's
        owner."""
        if access.stream != self.owner and self.returns is not None:
            self.elsewhere = self.elsewhere or {}
            self.elsewhere[access.stream] = access

    def put_on_map(self) -> None:
        """Makes the block known to address maps. Call it before giving out an address in it."""
        if not self.is_on_map:
            self.is_on_map = True
            ALLOCATIONS.blocks[id(self)] = ref(self)
            ALLOCATIONS.changes += 1

    def watch(self, watcher: FreeWatcher) -> None:
        """Adds a watcher, whose `freed` is called when the block is freed. Doesn't keep the watcher
        alive."""
        self.watchers = self.watchers or WeakSet()
        self.watchers.add(watcher)

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        """Tells the watchers that the block is freed. Does nothing at exit: Python may clear the
        names of modules before it frees the last blocks, so the test for it is a default."""
        if at_exit() or not hasattr(self, "watchers"):
            return  # Without watchers an error ended __init__ before this was an allocation.
        if self.is_on_map:
            ALLOCATIONS.forget(self)
        if self.counted:
            IN_USE.release(self.counted)
        for watcher in self.watchers or ():
            watcher.freed()
        if self.leaves is not None or self.elsewhere:
            self.release()

    def release(self) -> None:
        """Lets later allocations get the block's memory, even if streams still use it."""
        if self.leaves is not None:
            own = [a for a in (self.last_read, self.last_write) if a and a.stream == self.owner]
            start, end = self.span()
            if own:
                last = max(own, key=lambda access: access.order)
                self.leaves.append(Freed(self.owner, end - start, (last,)))
        if self.elsewhere and self.returns is not None:
            uses = [use for use in self.elsewhere.values() if use.stream not in self.kept_for]
            start, end = self.span()
            if uses:
                self.returns.append(Freed(self.owner, end - start, tuple(uses)))


class DeviceBlock(Block):
    """An allocation of device memory: `data` is a CPU tensor that views its storage."""

    __slots__ = ("data", "piece")
    place = "device"

    def __init__(self, data: torch.Tensor) -> None:
        super().__init__()
        self.data = data
        self.piece: caching.Piece | None = None
        if data.is_meta:
            return
        if IN_USE.is_counted:
            self.counted = IN_USE.take(data.untyped_storage().nbytes())
        if caching.DEVICE.is_on:
            self.piece = caching.DEVICE.take(data.untyped_storage().nbytes())

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        piece: caching.Piece | None = getattr(self, "piece", None)
        if piece is not None and not at_exit():
            caching.DEVICE.give(piece)
        super().__del__(at_exit)

    def span(self) -> Span:
        """Returns the storage's current addresses, which change if it is resized."""
        if self.data.is_meta:
            return 0, 0
        storage = self.data.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    def hold(self) -> torch.Tensor:
        return self.data

    def all_bytes(self) -> torch.Tensor:
        """Returns a view of the whole storage, uint8 [nbytes] on the CPU."""
        return torch.empty(0, dtype=torch.uint8, device="cpu").set_(self.data.untyped_storage())


class Storage(torch.UntypedStorage):
    """The storage of a block, which frees its memory when it is resized, as FSDP's
    `resize_(0)` does."""

    block: ref[Block]

    @classmethod
    def of(cls, data: torch.Tensor, block: Block) -> Storage:
        """Returns the storage of a CPU tensor of `block`, which gets this class."""
        storage = data.untyped_storage()
        storage.__class__ = cls
        assert isinstance(storage, cls)
        storage.block = ref(block)
        return storage

    def resize_(self, size: int) -> None:
        block = self.block()
        if block is not None and size != self.nbytes():
            block.release()
            block.elsewhere = None
            block.forget_accesses()
            if IN_USE.is_counted:
                IN_USE.release(block.counted)
                block.counted = IN_USE.take(size)
        super().resize_(size)
        ALLOCATIONS.changes += 1


class PagesRef(ref):
    """A weak reference to the pages of pinned memory; `span` holds their addresses."""

    __slots__ = ("span",)
    span: Span


class HostBlock(Block):
    """One range of pinned host memory: an allocation of its own, or registered memory."""

    __slots__ = ("end", "pages", "start")
    place = "pinned"

    def __init__(self, start: int, end: int, pages: PagesRef | None = None) -> None:
        """Takes the addresses of the first byte and of the byte after the last, and a reference to
        the pages that own the memory, or None for registered memory."""
        super().__init__()
        self.start, self.end = start, end
        self.pages = pages
        if pages is not None:
            pages.span = start, end
        self.put_on_map()

    def span(self) -> Span:
        return self.start, self.end

    def hold(self) -> object:
        return self.pages and self.pages()


class Allocations:
    """The blocks whose addresses are known, by `id`, and the lines that freed blocks. `changes`
    grows when a block is added, moved or freed."""

    def __init__(self) -> None:
        self.blocks: dict[int, ref[Block]] = {}
        self.changes = 0
        self._freed: deque[tuple[Span, SourceLine | None]] = deque(maxlen=MOST_FREED)

    def forget(self, block: Block) -> None:
        """Removes a block that is being freed, and remembers its addresses with the line that frees
        it."""
        self.blocks.pop(id(block), None)
        self.changes += 1
        self._freed.append((block.span(), source_line()))

    def freed_at(self, address: int) -> SourceLine | None:
        """Returns the line that last freed memory at an address, or None if it isn't remembered."""
        spans = (line for (start, end), line in reversed(self._freed) if start <= address < end)
        return next(spans, None)


ALLOCATIONS = Allocations()
