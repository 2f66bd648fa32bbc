"""Allocations of sim: every tensor that views one piece of device memory shares its Block."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol
from weakref import WeakSet, ref

import torch

from debubble.contract.source_line import SourceLine


class Access(NamedTuple):
    """Who touched a block last: a stream's number, the place in its queue, the line."""

    stream: int
    order: int
    source: SourceLine | None


Span = tuple[int, int]
"""Addresses of the first byte of a range and of the one behind its last."""


class Past(NamedTuple):
    """That work touched all of a range: all that a tensor on sim looks at, by its data, or a span
    of host memory. (A tensor would keep that from being freed.)"""

    access: Access
    where: torch.Tensor | Span
    wrote: bool


class FreeWatcher(Protocol):
    def freed(self) -> None: ...


class Log(Protocol):
    """Keeps who touched the blocks that it follows, by their bytes."""

    def follow(self, block: Block) -> None: ...


class Block:
    """One allocation. Its watchers hear when the last tensor over it is gone."""

    __slots__ = (
        "__weakref__",
        "is_on_map",
        "last_read",
        "last_write",
        "log",
        "made_by",
        "past",
        "watchers",
    )
    place: Literal["device", "pinned"]

    def __init__(self) -> None:
        self.last_write: Access | None = None
        self.last_read: Access | None = None
        self.past: list[Past] | None = None
        """The last accesses to parts of it, while it isn't used by address."""
        self.log: Log | None = None
        """Where they are instead from then on."""
        self.made_by: Access | None = None
        self.is_on_map = False
        self.watchers: WeakSet[FreeWatcher] | None = None

    def span(self) -> Span:
        """Where it begins and ends."""
        raise NotImplementedError

    def hold(self) -> object:
        """What keeps its bytes, though not the block itself, from being freed."""
        raise NotImplementedError

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
        if self.is_on_map:
            ALLOCATIONS.blocks.pop(id(self), None)
            ALLOCATIONS.changes += 1
        for watcher in self.watchers or ():
            watcher.freed()


class DeviceBlock(Block):
    """Device memory: `data` is a CPU tensor over it."""

    __slots__ = ("data",)
    place = "device"

    def __init__(self, data: torch.Tensor) -> None:
        super().__init__()
        self.data = data

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
        return torch.empty(0, dtype=torch.uint8).set_(self.data.untyped_storage())


class HostBlock(Block):
    """One range of pinned host memory: an allocation of its own, or memory that was registered."""

    __slots__ = ("end", "pages", "start")
    place = "pinned"

    def __init__(self, start: int, end: int, pages: object = None) -> None:
        """`pages` is what frees the memory; None for what is registered."""
        super().__init__()
        self.start, self.end = start, end
        self.pages = None if pages is None else ref(pages)
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


ALLOCATIONS = Allocations()
