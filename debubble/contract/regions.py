"""Regions: blocks of code in which something is forbidden or allowed, in their threads too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from .backward_pass import UNDER_WAY, running_pass

Rule = Literal["forbidden", "allowed"]

_in_a_pool: ContextVar[bool] = ContextVar("a task of a pool", default=False)
"""True while this thread runs a task of a thread pool, whose errors reach the caller that reads the
task's result."""


class Region:
    """A block of code in which an act is forbidden or allowed. Its rule ends with the block;
    threads that the block starts may live longer."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.thread = threading.get_ident()
        self.is_over = False
        self.refused: list[Exception] = []
        """Errors raised in threads that the block started, where they might go unnoticed."""


class Act:
    """An act that a region forbids or allows: a sync or a compilation. A backward pass uses its
    caller's region. A thread started in a forbidding region uses that region, and so does a task
    submitted there to a thread pool."""

    def __init__(self, name: str) -> None:
        self._regions: ContextVar[Region | None] = ContextVar(f"a region for {name}", default=None)

    @contextmanager
    def forbidding(self) -> Iterator[Region]:
        """Forbids the act in the block. Raises at its end the first error of the threads that it
        started, unless the block itself raised."""
        with self._inside(Region("forbidden")) as region:
            yield region
        if region.refused:
            raise region.refused[0]

    @contextmanager
    def allowing(self) -> Iterator[None]:
        with self._inside(Region("allowed")):
            yield

    @contextmanager
    def _inside(self, region: Region) -> Iterator[Region]:
        outer = self._regions.set(region)
        try:
            yield region
        finally:
            region.is_over = True
            self._regions.reset(outer)

    @contextmanager
    def by_the_rule_of(self, region: Region, in_a_pool: bool) -> Iterator[None]:
        """Makes the running thread follow the rule of a region that another thread began, as long
        as the region lasts. `in_a_pool` is True in a task of a thread pool."""
        outer, pool = self._regions.set(region), _in_a_pool.set(in_a_pool)
        try:
            yield
        finally:
            self._regions.reset(outer)
            _in_a_pool.reset(pool)

    def note_refused(self, error: Exception) -> None:
        """Stores an error of a thread that the region's block started, to raise it when the block
        ends."""
        region = self._regions.get()
        if region is not None and region.thread != threading.get_ident() and not _in_a_pool.get():
            region.refused.append(error)

    def is_forbidden(self) -> bool:
        return self.forbidding_region() is not None

    def is_allowed(self) -> bool:
        """Returns True in a region that allows the act; outside all regions it is neither allowed
        nor forbidden."""
        region = self._region()
        return region is not None and region.rule == "allowed"

    def forbidding_region(self) -> Region | None:
        """Returns the forbidding region around the running code, whose rule threads started and
        tasks submitted there have to follow, or None."""
        region = self._region()
        return region if region is not None and region.rule == "forbidden" else None

    def _region(self) -> Region | None:
        """Returns the region around the running code, or in a backward pass around the code that
        waits for it. Returns None if there is none or it has ended."""
        region = self._regions.get()
        if region is None and UNDER_WAY:
            running = running_pass()
            while region is None and running is not None:
                region, running = running.context.get(self._regions), running.outer
        return None if region is None or region.is_over else region
