"""find_host_syncs: runs code, and reports where the host waited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..contract.recorded import Also, checked_also
from ..detector.ending import threads_that_end
from ..detector.report import SyncReport

if TYPE_CHECKING:
    from ..accelerator import Accelerator

MOST_CALLS = 100_000
"""The most calls of PyTorch that are recorded. On a GPU the trace of this many takes some
gigabytes."""


@contextmanager
def find_host_syncs(
    accelerator: Accelerator | None = None,
    most_calls: int | None = MOST_CALLS,
    also: Iterable[Also] = (),
) -> Iterator[SyncReport]:
    """Yields a SyncReport that is filled when the block ends: each line at which the host waited
    for the device, or at which a copy of pageable memory held the host, with how many times and for
    how long.

        with debubble.find_host_syncs() as report:
            model.step(batch)
        print(report)

    Sees every thread. Lines are those of your own code, outside PyTorch and other packages. On CUDA
    a thread that was running before the block is named, and its lines are known for tasks that it
    gets through a ThreadPoolExecutor. Waits inside `allow_host_sync` are listed apart. If the
    block, or a thread in it, ends by an exception, the report says so, and where. After
    `most_calls` calls of PyTorch the report is `timeline.cut_off`; None means no limit.

    `also` adds findings of what the host does itself: "compile", "alloc" (device and pinned
    memory), and "host": the program's own Python and launches for which the device has no work, and
    a full launch queue.
    """
    # The command line imports this module for the limit alone, and `recording` imports torch.
    from .recording import record

    report = None
    try:
        with record(accelerator, most_calls, also=also) as timeline:
            report = SyncReport(timeline, also=checked_also(also))
            with threads_that_end(report.note):
                yield report
    except BaseException as error:
        if report is not None:
            report.note(error)
        raise
    finally:
        if report is not None:
            report.fill()
