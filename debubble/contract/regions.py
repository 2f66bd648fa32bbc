"""Regions: blocks of code in which something is forbidden or allowed, in their threads too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from .backward_pass import UNDER_WAY, running_pass

Rule = Literal["forbidden", "allowed"]


class Region:
    """A block of code in which an act is forbidden or allowed. Its rule ends with the block;
    threads that the block starts may live longer."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.thread = threading.get_ident()
        self.is_over = False
        self.refused: list[Exception] = []
        """Errors raised in threads that the block started, where they might go unnoticed."""


Regions = ContextVar[Region | None]
"""The innermost region of a context, for one act. A backward pass uses its caller's region. A
thread started in a forbidding region uses that region, and so does a task submitted there to a
thread pool."""


@contextmanager
def forbidding(regions: Regions) -> Iterator[Region]:
    """Forbids the act in the block. Raises at its end the first error of the threads that it
    started, unless the block itself raised."""
    with inside(regions, Region("forbidden")) as region:
        yield region
    if region.refused:
        raise region.refused[0]


@contextmanager
def inside(regions: Regions, region: Region) -> Iterator[Region]:
    outer = regions.set(region)
    try:
        yield region
    finally:
        region.is_over = True
        regions.reset(outer)


@contextmanager
def by_the_rule_of(regions: Regions, region: Region, in_a_pool: bool) -> Iterator[None]:
    """Makes the running thread follow the rule of a region that another thread began, as long as
    the region lasts. `in_a_pool` is True in a task of a thread pool."""
    outer, pool = regions.set(region), _in_a_pool.set(in_a_pool)
    try:
        yield
    finally:
        regions.reset(outer)
        _in_a_pool.reset(pool)


_in_a_pool: ContextVar[bool] = ContextVar("a task of a pool", default=False)
"""True while this thread runs a task of a thread pool, whose errors reach the caller that reads the
task's result."""


def note_refused(regions: Regions, error: Exception) -> None:
    """Stores an error of a thread that the region's block started, to raise it when the block
    ends."""
    region = regions.get()
    if region is not None and region.thread != threading.get_ident() and not _in_a_pool.get():
        region.refused.append(error)


def region_at(regions: Regions) -> Region | None:
    """Returns the region around the running code, or in a backward pass around the code that waits
    for it. Returns None if there is none or it has ended."""
    region = regions.get()
    if region is None and UNDER_WAY:
        running = running_pass()
        while region is None and running is not None:
            region, running = running.context.get(regions), running.outer
    return None if region is None or region.is_over else region


def forbidding_region(regions: Regions) -> Region | None:
    """Returns the forbidding region around the running code, whose rule threads started and tasks
    submitted there have to follow, or None."""
    region = region_at(regions)
    return region if region is not None and region.rule == "forbidden" else None
