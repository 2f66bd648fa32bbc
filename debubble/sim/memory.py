"""Allocations of sim: every tensor that views one piece of device memory shares its Block."""

from __future__ import annotations

from typing import NamedTuple, Protocol
from weakref import WeakSet

from ..timeline.event import SourceLine


class Access(NamedTuple):
    """Who touched a block last: a stream's number, the place in its queue, the line."""

    stream: int
    order: int
    source: SourceLine | None


class FreeWatcher(Protocol):
    def freed(self) -> None: ...


class Block:
    """One allocation. Its watchers hear when the last tensor over it is gone."""

    __slots__ = ("__weakref__", "last_read", "last_write", "watchers")

    def __init__(self) -> None:
        self.last_write: Access | None = None
        self.last_read: Access | None = None
        self.watchers: WeakSet[FreeWatcher] | None = None

    def watch(self, watcher: FreeWatcher) -> None:
        """For as long as somebody else keeps the watcher."""
        self.watchers = self.watchers or WeakSet()
        self.watchers.add(watcher)

    def __del__(self) -> None:
        for watcher in self.watchers or ():
            watcher.freed()
