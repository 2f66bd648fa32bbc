"""no_host_syncs and no_compiles: blocks in which waits or compilations are forbidden."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..accelerator import current
from ..contract.compiles import COMPILATION
from ..contract.host_syncs import HOST_SYNC
from ..contract.python.follow import Enter, into_chosen_threads
from ..contract.python.warned_at import at_the_users_line
from ..contract.regions import Act


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
    with _forbidding(HOST_SYNC, current().watching_for_syncs):
        yield


@contextmanager
def no_compiles() -> Iterator[None]:
    """Raises UnexpectedCompile at the line where a Triton kernel or a function of `torch.compile`
    would be compiled, and says which argument was new about its key.

        warm_up(model)
        with debubble.no_compiles():
            serve(model)

    Applies to this context, to its backward passes, to the threads that it starts, and to the tasks
    that it submits to thread pools. A compilation that is refused in a thread raises there, and at
    the end of the block as well. On sim nothing is compiled: the keys are counted from the first
    launch of the process on.
    """
    with _forbidding(COMPILATION, current().watching_for_compiles):
        yield


@contextmanager
def _forbidding(act: Act, watching: Enter) -> Iterator[None]:
    """Forbids `act` in the block, where the context manager of `watching` looks for it."""
    with (
        at_the_users_line(),
        act.forbidding(),
        into_chosen_threads(lambda in_a_pool: _for_this_region(act, watching, in_a_pool)),
        watching(),
    ):
        yield


def _for_this_region(act: Act, watching: Enter, in_a_pool: bool) -> Enter | None:
    """Returns a function that makes the context in which a thread that starts now has to run, so
    that `act` is refused there too; None if it is not forbidden here."""
    region = act.forbidding_region()
    if region is None:
        return None

    @contextmanager
    def enter() -> Iterator[None]:
        with act.by_the_rule_of(region, in_a_pool), watching():
            yield

    return enter
