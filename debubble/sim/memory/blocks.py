"""Allocations of sim: every tensor that views one piece of device memory shares its Block."""

from __future__ import annotations

import gc
from collections import deque
from typing import Literal, NamedTuple, Protocol
from weakref import WeakSet, ref

import numpy as np
import torch

from debubble.contract.source_line import SourceLine, source_line


class Access(NamedTuple):
    """Who touched a block last: a stream's number, the place in its queue, the line."""

    stream: int
    order: int
    source: SourceLine | None
    says_where: bool = True
    """False for a kernel, which may touch any part of its tensors."""


Span = tuple[int, int]
"""Addresses of the first byte of a range and of the one behind its last."""


class Part(Protocol):
    """Some of the bytes that a tensor looks at."""

    def ranges(self) -> tuple[np.ndarray, np.ndarray]: ...
    def span(self) -> Span: ...


class Past(NamedTuple):
    """That work touched all of a range: all that a tensor on sim looks at, by its data, a part of
    it, or a span of host memory. (A tensor would keep that from being freed.)"""

    access: Access
    where: torch.Tensor | Span | Part
    wrote: bool


class GivenBack(NamedTuple):
    """Device memory that nobody holds any more, while work on other streams may still use it."""

    owner: int
    """The stream on which it was asked for: by PyTorch's rule it is handed out there again, at
    once, to whoever asks next."""
    nbytes: int
    uses: tuple[Access, ...]
    """The last one of each other stream."""


class FreeWatcher(Protocol):
    def freed(self) -> None: ...


class Log(Protocol):
    """Keeps who touched the blocks that it follows, by their bytes."""

    def follow(self, block: Block) -> None: ...


class InUse:
    """Bytes of device memory that tensors hold, counted as PyTorch's allocator hands them out:
    only where somebody asks for such figures."""

    def __init__(self) -> None:
        self.is_counted = False
        self.now = self.most = self.allocations = 0
        self.cached = 0
        """The most that was in use since the allocator's cache was emptied."""
        self.limit: int | None = None
        """Bytes that there are, or None for as many as this machine gives."""

    def take(self, nbytes: int) -> int:
        """How many bytes that many are rounded up to."""
        self.expect_room(nbytes)
        rounded = -(-nbytes // ROUNDED_TO) * ROUNDED_TO
        self.now += rounded
        self.most = max(self.most, self.now)
        self.cached = max(self.cached, self.now)
        self.allocations += bool(rounded)
        return rounded

    def give_back(self, nbytes: int) -> None:
        self.now -= nbytes

    def expect_room(self, nbytes: int) -> None:
        """torch.OutOfMemoryError if this many bytes more are too many."""
        if self.limit is None or self.now + nbytes <= self.limit:
            return
        gc.collect()
        if self.now + nbytes > self.limit:
            raise out_of_memory(nbytes, self.limit - self.now)


def out_of_memory(nbytes: int | None = None, free: int | None = None) -> torch.OutOfMemoryError:
    """Begins as PyTorch's own does, since programs look for these words."""
    tried = "" if nbytes is None else f" Tried to allocate {nbytes / GIB:.2f} GiB."
    there = "" if free is None else f" and {free / GIB:.2f} GiB of it are free"
    return torch.OutOfMemoryError(
        f"CUDA out of memory.{tried} On sim the GPU's memory is this machine's own{there}: choose "
        "a smaller size, or a machine with more memory"
    )


GIB = 1 << 30
NO_MEMORY = "DefaultCPUAllocator"
"""Named by PyTorch's error where the CPU's memory doesn't suffice."""
ROUNDED_TO = 512
"""Bytes."""
MOST_FREED = 256
"""Blocks whose last line is remembered."""
IN_USE = InUse()


class Block:
    """One allocation. Its watchers hear when the last tensor over it is gone."""

    __slots__ = (
        "__weakref__",
        "counted",
        "elsewhere",
        "is_on_map",
        "kept_for",
        "last_read",
        "last_write",
        "log",
        "made_by",
        "others",
        "owner",
        "past",
        "returns",
        "watchers",
    )
    place: Literal["device", "pinned"]
    in_use = IN_USE
    """Asked of the class, since a module's names are gone when Python ends before its tensors."""

    def __init__(self) -> None:
        self.last_write: Access | None = None
        self.last_read: Access | None = None
        """Since it was written last."""
        self.others: dict[tuple[int, bool], Access] | None = None
        """Accesses in no order with these two, such as to another part: the last one of each
        stream, and True for a write."""
        self.past: list[Past] | None = None
        """The last accesses to parts of it, while it isn't used by address."""
        self.log: Log | None = None
        """Where they are instead from then on."""
        self.made_by: Access | None = None
        self.is_on_map = False
        self.counted = 0
        """Bytes of it in IN_USE."""
        self.owner = 0
        """The stream on which it was asked for, by its number."""
        self.returns: deque[GivenBack] | None = None
        """Where it goes when nobody holds it any more."""
        self.elsewhere: dict[int, Access] | None = None
        """The last access of each stream but the owner's."""
        self.kept_for: set[int] = set()
        """Streams that it was recorded on: it is not handed out before they are done with it."""
        self.watchers: WeakSet[FreeWatcher] | None = None

    def span(self) -> Span:
        """Where it begins and ends."""
        raise NotImplementedError

    def hold(self) -> object:
        """What keeps its bytes, though not the block itself, from being freed."""
        raise NotImplementedError

    def forget_accesses(self) -> None:
        """Must be called when all that was queued is done, or was never queued."""
        self.last_write = self.last_read = self.others = self.made_by = self.past = None

    def used_by(self, access: Access) -> None:
        """Remembered if it is on another stream than the owner's."""
        if access.stream != self.owner and self.returns is not None:
            self.elsewhere = self.elsewhere or {}
            self.elsewhere[access.stream] = access

    def put_on_map(self) -> None:
        """Must be called before anybody learns of an address in it."""
        if not self.is_on_map:
            self.is_on_map = True
            ALLOCATIONS.blocks[id(self)] = ref(self)
            ALLOCATIONS.changes += 1

    def watch(self, watcher: FreeWatcher) -> None:
        """For as long as somebody else keeps the watcher."""
        self.watchers = self.watchers or WeakSet()
        self.watchers.add(watcher)

    def __del__(self) -> None:
        if not hasattr(self, "watchers"):
            return  # An error came before it was an allocation.
        if self.is_on_map:
            ALLOCATIONS.forget(self)
        if self.counted:
            self.in_use.give_back(self.counted)
        for watcher in self.watchers or ():
            watcher.freed()
        if self.elsewhere and self.returns is not None:
            uses = [use for use in self.elsewhere.values() if use.stream not in self.kept_for]
            start, end = self.span()
            if uses:
                self.returns.append(GivenBack(self.owner, end - start, tuple(uses)))


class DeviceBlock(Block):
    """Device memory: `data` is a CPU tensor over it."""

    __slots__ = ("data",)
    place = "device"

    def __init__(self, data: torch.Tensor) -> None:
        super().__init__()
        self.data = data
        if IN_USE.is_counted and not data.is_meta:
            self.counted = IN_USE.take(data.untyped_storage().nbytes())

    def span(self) -> Span:
        """A storage that is resized moves."""
        if self.data.is_meta:
            return 0, 0
        storage = self.data.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()

    def hold(self) -> torch.Tensor:
        return self.data

    def all_bytes(self) -> torch.Tensor:
        """uint8 [nbytes], on the CPU"""
        return torch.empty(0, dtype=torch.uint8, device="cpu").set_(self.data.untyped_storage())


class PagesRef(ref):
    """A weak reference to pages; `span` are their addresses."""

    __slots__ = ("span",)
    span: Span


class HostBlock(Block):
    """One range of pinned host memory: an allocation of its own, or memory that was registered."""

    __slots__ = ("end", "pages", "start")
    place = "pinned"

    def __init__(self, start: int, end: int, pages: PagesRef | None = None) -> None:
        """`pages` is what frees the memory; None for what is registered."""
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
    """The blocks that somebody knows an address in, by identity; `changes` grows when one comes,
    moves or goes."""

    def __init__(self) -> None:
        self.blocks: dict[int, ref[Block]] = {}
        self.changes = 0
        self._freed: deque[tuple[Span, SourceLine | None]] = deque(maxlen=MOST_FREED)

    def forget(self, block: Block) -> None:
        """Must be called when a block is freed."""
        self.blocks.pop(id(block), None)
        self.changes += 1
        self._freed.append((block.span(), source_line()))

    def freed_at(self, address: int) -> SourceLine | None:
        """The line that last freed memory at an address, if it is remembered."""
        spans = (line for (start, end), line in reversed(self._freed) if start <= address < end)
        return next(spans, None)


ALLOCATIONS = Allocations()
