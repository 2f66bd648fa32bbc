"""The rule of a region, whether the host may wait for the device, and the error of breaking it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from .backward_pass import learners_line
from .regions import Act
from .source_line import SourceLine


class HostSyncError(RuntimeError):
    """Raised where the host waits, or a copy would make it wait, in a region that forbids it."""

    def __init__(self, what: str, source: SourceLine | None) -> None:
        self.what, self.source = what, source
        super().__init__(f"{what} at {source.whole}" if source else what)


HOST_SYNC = Act("host syncs")


@contextmanager
def allow_host_sync() -> Iterator[None]:
    """Allows host syncs in a block inside `no_host_syncs`, for a wait that is intended;
    `find_host_syncs` lists such waits separately."""
    with HOST_SYNC.allowing():
        yield


def refuse(what: str) -> NoReturn:
    error = HostSyncError(what, learners_line())
    HOST_SYNC.note_refused(error)
    try:
        raise error
    finally:
        del error  # Its traceback holds this frame, and a reference cycle is freed late.
