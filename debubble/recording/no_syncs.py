"""no_host_syncs: a block in which the host may not wait for the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..accelerator import Accelerator, current
from ..contract.host_syncs import by_the_rule_of, forbidding_host_syncs, region_here
from ..contract.python.follow import Enter, into_chosen_threads
from ..contract.python.warned_at import at_the_users_line


@contextmanager
def no_host_syncs() -> Iterator[None]:
    """Raises HostSyncError at the line where the host waits for the device, or copies to or from
    pageable or non-contiguous memory "without blocking".

    Applies to this context, to the backward passes that it begins, hooks included, to the threads
    that it starts, and to the tasks that it submits to thread pools; all other threads may wait. A
    wait that is refused in a thread raises there, and at the end of the block as well.

    On a GPU `torch.compile` runs functions as they are written while a block like this is on, and
    refuses `fullgraph=True`: PyTorch compiles nothing under a mode that watches its operators.
    """
    accelerator = current()
    with (
        at_the_users_line(),
        forbidding_host_syncs(),
        into_chosen_threads(lambda in_a_pool: _for_this_region(accelerator, in_a_pool)),
        accelerator.watching_for_syncs(),
    ):
        yield


def _for_this_region(accelerator: Accelerator, in_a_pool: bool) -> Enter | None:
    """Returns a function that makes the context in which a thread that starts now has to run, so
    that its waits are refused too; None if waits are not forbidden here."""
    region = region_here()
    if region is None:
        return None

    @contextmanager
    def enter() -> Iterator[None]:
        with by_the_rule_of(region, in_a_pool), accelerator.watching_for_syncs():
            yield

    return enter
