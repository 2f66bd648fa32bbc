"""Allocations of sim: every tensor that views one piece of device memory shares its Block."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..timeline.event import SourceLine


class Access(NamedTuple):
    """Who touched a block last: a stream's number, the place in its queue, the line."""

    stream: int
    order: int
    source: SourceLine | None


class Block:
    """One allocation. `on_free` is called when the last tensor over it is gone."""

    __slots__ = ("__weakref__", "last_read", "last_write", "on_free")

    def __init__(self) -> None:
        self.last_write: Access | None = None
        self.last_read: Access | None = None
        self.on_free: list[Callable[[], None]] | None = None

    def __del__(self) -> None:
        for call in self.on_free or ():
            call()
