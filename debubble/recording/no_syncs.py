"""no_host_syncs: a block in which the host may not wait for the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..accelerator import current
from ..contract.host_syncs import forbidding_host_syncs


@contextmanager
def no_host_syncs() -> Iterator[None]:
    """Raises HostSyncError at the line where the host waits for the device, or copies to or from
    pageable or non-contiguous memory "without blocking". Holds for this
    context only, and for the backward passes that it begins, hooks included: other threads and
    tasks may wait."""
    with forbidding_host_syncs(), current().watching_for_syncs():
        yield
