"""The rule of a region, whether the host may wait for the device, and the error of breaking it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NoReturn

from .backward_pass import UNDER_WAY, learners_line, running_pass
from .source_line import SourceLine


class HostSyncError(RuntimeError):
    """Raised where the host waits, or a copy would make it wait, in a region that forbids it."""

    def __init__(self, what: str, source: SourceLine | None) -> None:
        self.what, self.source = what, source
        super().__init__(f"{what} at {source.whole}" if source else what)


Rule = Literal["forbidden", "allowed"]


class Region:
    """A block of code in which host syncs are forbidden or allowed. Its rule ends with the block;
    threads that the block starts may live longer."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.thread = threading.get_ident()
        self.is_over = False
        self.refused: list[HostSyncError] = []
        """HostSyncErrors raised in threads that the block started, where they might go
        unnoticed."""


_region: ContextVar[Region | None] = ContextVar("the region for host syncs", default=None)
"""The innermost region of this context. A backward pass uses its caller's region. A thread started
in a forbidding region uses that region, and so does a task submitted there to a thread pool."""


@contextmanager
def forbidding_host_syncs() -> Iterator[Region]:
    """Forbids host syncs in the block, in which the accelerator must watch for them. Raises at its
    end the first HostSyncError of the threads it started, unless the block itself raised."""
    with _inside(Region("forbidden")) as region:
        yield region
    if region.refused:
        raise region.refused[0]


@contextmanager
def allow_host_sync() -> Iterator[None]:
    """Allows host syncs in a block inside `no_host_syncs`, for a wait that is intended;
    `find_host_syncs` lists such waits separately."""
    with _inside(Region("allowed")):
        yield


def syncs_are_forbidden() -> bool:
    region = _here()
    return region is not None and region.rule == "forbidden"


def syncs_are_allowed() -> bool:
    """Returns True in a region that allows host syncs; outside all regions they are neither allowed
    nor forbidden."""
    region = _here()
    return region is not None and region.rule == "allowed"


def refuse(what: str) -> NoReturn:
    error = HostSyncError(what, learners_line())
    region = _region.get()
    if region is not None and region.thread != threading.get_ident() and not _in_a_pool.get():
        region.refused.append(error)
    try:
        raise error
    finally:
        del error  # Its traceback holds this frame, and a reference cycle is freed late.


@contextmanager
def by_the_rule_of(region: Region, in_a_pool: bool) -> Iterator[None]:
    """Makes the running thread follow the rule of a region that another thread began, as long as
    the region lasts. `in_a_pool` is True in a task of a thread pool."""
    outer, pool = _region.set(region), _in_a_pool.set(in_a_pool)
    try:
        yield
    finally:
        _region.reset(outer)
        _in_a_pool.reset(pool)


_in_a_pool: ContextVar[bool] = ContextVar("a task of a pool", default=False)
"""True while this thread runs a task of a thread pool, whose errors reach the caller that reads the
task's result."""


def region_here() -> Region | None:
    """Returns the forbidding region around the running code, whose rule threads started and tasks
    submitted there have to follow, or None."""
    region = _here()
    return region if region is not None and region.rule == "forbidden" else None


def _here() -> Region | None:
    """Returns the region of `no_host_syncs` or `allow_host_sync` around the running code, or in a
    backward pass around the code that waits for it. Returns None if there is none or it has
    ended."""
    region = _region.get()
    if region is None and UNDER_WAY:
        running = running_pass()
        while region is None and running is not None:
            region, running = running.context.get(_region), running.outer
    return None if region is None or region.is_over else region


@contextmanager
def _inside(region: Region) -> Iterator[Region]:
    outer = _region.set(region)
    try:
        yield region
    finally:
        region.is_over = True
        _region.reset(outer)
