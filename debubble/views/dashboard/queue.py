"""Of many settings wanted in a row only the last are run, one run at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from functools import partial
from typing import Protocol, runtime_checkable

from .run import Failure, Run, RunCall, in_a_line, perform
from .settings import Settings

ENDED = (
    "The process that ran it has ended (it crashed, was killed, or memory ran out): "
    "the next run starts another one"
)


@runtime_checkable
class EndsEarly(Protocol):
    """Jobs of which the one under way can be told that nobody waits for it any more."""

    def end_early(self) -> None: ...


class LastWanted:
    """Hands `run` to `jobs` and keeps what it gave, so that going back takes no time.

    `changed` is called after each step, with `lock` held, in whichever thread it happened.
    """

    def __init__(self, run: RunCall, jobs: Executor, settings: Settings) -> None:
        """Wants `settings` at once."""
        self._run, self._jobs = run, jobs
        self.lock = threading.Condition()
        self.kept: dict[Settings, Run] = {}
        self.wanted = settings
        self.running: Settings | None = None
        self.failure: Failure | None = None
        """Why there is no run of what is wanted."""
        self.changed: Callable[[], None] = lambda: None
        self.want(settings)

    @property
    def settled(self) -> bool:
        """Whether what is wanted has been run, or has failed."""
        return self.wanted in self.kept or self.failure is not None

    def want(self, settings: Settings) -> None:
        """Returns at once. What failed before is tried again."""
        with self.lock:
            self.wanted, self.failure = settings, None
            if self.running not in (None, settings) and isinstance(self._jobs, EndsEarly):
                self._jobs.end_early()
            self._go_on()

    def wait(self, seconds: float) -> Run:
        """The run of what is wanted. RuntimeError if it failed, TimeoutError if it takes longer."""
        with self.lock:
            if not self.lock.wait_for(lambda: self.settled, seconds):
                raise TimeoutError(
                    f"{self.wanted}: not there after {seconds:g} seconds. It still runs: wait "
                    f"again, for longer than that"
                )
            if self.failure is None:
                return self.kept[self.wanted]
            error = RuntimeError(self.failure.told_of(self.wanted))
            if self.failure.details:
                error.add_note(self.failure.details)
            raise error

    def _go_on(self) -> None:
        if self.running is None and not self.settled:
            self._start()
        try:
            self.changed()
        finally:
            self.lock.notify_all()

    def _start(self) -> None:
        settings = self.running = self.wanted
        try:
            future = self._jobs.submit(perform, self._run, settings)
        except Exception as error:
            self.running, self.failure = None, Failure(in_a_line(error))
        else:
            future.add_done_callback(partial(self._finish, settings))

    def _finish(self, settings: Settings, future: Future[Run | Failure]) -> None:
        """In the thread of `jobs`."""
        with self.lock:
            self.running = None
            outcome = outcome_of(future)
            if isinstance(outcome, Run):
                self.kept[settings] = outcome
            elif settings == self.wanted and not outcome.unwanted:
                self.failure = outcome
            self._go_on()


def outcome_of(future: Future[Run | Failure]) -> Run | Failure:
    try:
        return future.result()
    except BrokenExecutor:
        return Failure(ENDED)
    except (Exception, CancelledError) as error:
        return Failure(in_a_line(error))
