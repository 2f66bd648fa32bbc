"""no_compiles: a block in which no kernel may be compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..accelerator import Accelerator, current
from ..contract.compiles import by_the_rule_of, forbidding_compiles, region_here
from ..contract.python.follow import Enter, into_chosen_threads
from ..contract.python.warned_at import at_the_users_line


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
    accelerator = current()
    with (
        at_the_users_line(),
        forbidding_compiles(),
        into_chosen_threads(lambda in_a_pool: _for_this_region(accelerator, in_a_pool)),
        accelerator.watching_for_compiles(),
    ):
        yield


def _for_this_region(accelerator: Accelerator, in_a_pool: bool) -> Enter | None:
    """Returns a function that makes the context in which a thread that starts now has to run, or
    None if compilations are not forbidden here."""
    region = region_here()
    if region is None:
        return None

    @contextmanager
    def enter() -> Iterator[None]:
        with by_the_rule_of(region, in_a_pool), accelerator.watching_for_compiles():
            yield

    return enter
