"""The rule of a region, whether the host may wait for the device, and the error of breaking it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import NoReturn

from . import regions
from .backward_pass import learners_line
from .regions import Region, Regions
from .source_line import SourceLine


class HostSyncError(RuntimeError):
    """Raised where the host waits, or a copy would make it wait, in a region that forbids it."""

    def __init__(self, what: str, source: SourceLine | None) -> None:
        self.what, self.source = what, source
        super().__init__(f"{what} at {source.whole}" if source else what)


_regions: Regions = ContextVar("the region for host syncs", default=None)


def forbidding_host_syncs() -> AbstractContextManager[Region]:
    """Forbids host syncs in the block, in which the accelerator must watch for them. Raises at its
    end the first HostSyncError of the threads it started, unless the block itself raised."""
    return regions.forbidding(_regions)


@contextmanager
def allow_host_sync() -> Iterator[None]:
    """Allows host syncs in a block inside `no_host_syncs`, for a wait that is intended;
    `find_host_syncs` lists such waits separately."""
    with regions.inside(_regions, Region("allowed")):
        yield


def syncs_are_forbidden() -> bool:
    region = regions.region_at(_regions)
    return region is not None and region.rule == "forbidden"


def syncs_are_allowed() -> bool:
    """Returns True in a region that allows host syncs; outside all regions they are neither allowed
    nor forbidden."""
    region = regions.region_at(_regions)
    return region is not None and region.rule == "allowed"


def refuse(what: str) -> NoReturn:
    error = HostSyncError(what, learners_line())
    regions.note_refused(_regions, error)
    try:
        raise error
    finally:
        del error  # Its traceback holds this frame, and a reference cycle is freed late.


def by_the_rule_of(region: Region, in_a_pool: bool) -> AbstractContextManager[None]:
    """Makes the running thread follow the rule of a region that another thread began, as long as
    the region lasts. `in_a_pool` is True in a task of a thread pool."""
    return regions.by_the_rule_of(_regions, region, in_a_pool)


def region_here() -> Region | None:
    """Returns the forbidding region around the running code, whose rule threads started and tasks
    submitted there have to follow, or None."""
    return regions.forbidding_region(_regions)
