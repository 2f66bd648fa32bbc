"""Whether the host may wait for the device: the rule of a region, and the error of breaking it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NoReturn

from .backward_pass import UNDER_WAY, current, learners_line
from .source_line import SourceLine


class HostSyncError(RuntimeError):
    """The host waited, or a copy would make it wait, where that was ruled out."""

    def __init__(self, what: str, source: SourceLine | None) -> None:
        self.what, self.source = what, source
        super().__init__(f"{what} at {source.whole}" if source else what)


Rule = Literal["forbidden", "allowed"]


class Region:
    """A block with a rule, which ends with it; threads that it starts may live longer."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.thread = threading.get_ident()
        self.is_over = False
        self.refused: list[HostSyncError] = []
        """Raised in threads that the block started: nobody need have heard of them."""


_region: ContextVar[Region | None] = ContextVar("the region for host syncs", default=None)
"""The innermost one of this context. A backward pass has its caller's; so has a thread that was
started, and a task of a thread pool that was submitted, where waits are forbidden."""


@contextmanager
def forbidding_host_syncs() -> Iterator[Region]:
    """A region in which they are ruled out; the accelerator must watch for them meanwhile. At its
    end it raises what was refused in a thread of its own, unless it raises already."""
    with _inside(Region("forbidden")) as region:
        yield region
    if region.refused:
        raise region.refused[0]


@contextmanager
def allow_host_sync() -> Iterator[None]:
    """A hole in `no_host_syncs`, for a wait that is meant; `find_host_syncs` lists it apart."""
    with _inside(Region("allowed")):
        yield


def syncs_are_forbidden() -> bool:
    region = _here()
    return region is not None and region.rule == "forbidden"


def syncs_are_allowed() -> bool:
    """Whether somebody said so; where nobody said anything they are neither."""
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
        del error  # Its traceback holds this frame, and what is in a circle is freed late.


@contextmanager
def by_the_rule_of(region: Region, in_a_pool: bool) -> Iterator[None]:
    """For another thread that works for a region, as long as that lasts."""
    outer, pool = _region.set(region), _in_a_pool.set(in_a_pool)
    try:
        yield
    finally:
        _region.reset(outer)
        _in_a_pool.reset(pool)


_in_a_pool: ContextVar[bool] = ContextVar("a task of a pool", default=False)
"""Its errors are given to whoever asks for its result."""


def region_here() -> Region | None:
    """Where a thread is started now, or a task submitted: the region that it is to keep to."""
    region = _here()
    return region if region is not None and region.rule == "forbidden" else None


def _here() -> Region | None:
    """A backward pass works in threads of PyTorch's own, by the rule of the thread that waits."""
    region = _region.get()
    if region is None and UNDER_WAY:
        running = current()
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
