"""Restores an engine after a call that stopped halfway, at Ctrl-C or without memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from debubble.accelerator import current

from .requests.served import ServedRequests
from .runner import EngineRunner
from .scheduler import Scheduler


class Recovery:
    """The way back to a consistent state. A request is its prompt and the tokens that the host
    knows; everything else follows from these and is rebuilt."""

    def __init__(self, served: ServedRequests, scheduler: Scheduler, runner: EngineRunner) -> None:
        self.served, self.scheduler, self.runner = served, scheduler, runner
        self._is_torn = False
        """True while the state is being changed, and after a change that stopped halfway."""

    @contextmanager
    def change(self) -> Iterator[None]:
        """Makes the changes in its block atomic: if they stop halfway, wherever that is, all
        requests restart from the tokens that are known."""
        self.restore()
        self._is_torn = True
        try:
            yield
        except BaseException:
            self.restore()
            raise
        self._is_torn = False

    def restore(self) -> None:
        """Restores a consistent state if a change was interrupted. If this call is interrupted too,
        the next one repeats it."""
        if not self._is_torn:
            return
        current().synchronize()  # The steps in flight are unknown: wait for all.
        while self.served.in_flight:
            self.served.hand_out()
        for request in list(self.served.by_id.values()):
            if request.reason_to_end:
                self.served.end(request, request.reason_to_end)
        self.scheduler.reset(list(self.served.by_id.values()))
        self.runner.reset()
        self._is_torn = False
