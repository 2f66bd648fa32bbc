"""Runs the settings of a dashboard, one run at a time: of many requested in a row only the last are
run."""

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
    """An executor that can tell its job in flight that its result is no longer wanted."""

    def end_early(self) -> None: ...


class LastWanted:
    """A queue for one settings at a time: it submits `run` to `jobs` for the settings requested
    last, and stores results, so that going back takes no time.

    `changed` is called after each step, with `lock` held, in the thread in which the step happened.
    """

    def __init__(self, run: RunCall, jobs: Executor, settings: Settings) -> None:
        """Requests `settings` at once."""
        self._run, self._jobs = run, jobs
        self.lock = threading.Condition()
        self.kept: dict[Settings, Run] = {}
        self.wanted = settings
        self.running: Settings | None = None
        self.failure: Failure | None = None
        """The error of the run of the wanted settings; None if it has not failed."""
        self.changed: Callable[[], None] = lambda: None
        self.want(settings)

    @property
    def settled(self) -> bool:
        """True once the wanted settings have a result or an error."""
        return self.wanted in self.kept or self.failure is not None

    def want(self, settings: Settings) -> None:
        """Requests settings, and returns at once. Settings that failed before are tried again."""
        with self.lock:
            self.wanted, self.failure = settings, None
            if self.running not in (None, settings) and isinstance(self._jobs, EndsEarly):
                self._jobs.end_early()
            self._go_on()

    def wait(self, seconds: float) -> Run:
        """Returns the run of the wanted settings. Raises RuntimeError if it failed, TimeoutError if
        it takes longer than `seconds`."""
        with self.lock:
            if not self.lock.wait_for(lambda: self.settled, seconds):
                raise TimeoutError(
                    f"{self.wanted}: no result after {seconds:g} seconds. The run goes on: wait "
                    f"again, for more seconds"
                )
            if self.failure is None:
                return self.kept[self.wanted]
            error = RuntimeError(self.failure.told_of(self.wanted))
            if self.failure.details:
                error.add_note(self.failure.details)
            raise error

    def take(self, settings: Settings) -> Run:
        """Returns the run of any settings, without making them the wanted ones: a stored run, or a
        new one. Raises RuntimeError if it fails."""
        if settings not in self.kept:
            outcome = outcome_of(self._jobs.submit(perform, self._run, settings))
            if not isinstance(outcome, Run):
                raise RuntimeError(outcome.told_of(settings))
            self.kept[settings] = outcome
        return self.kept[settings]

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
        """Stores the outcome of a run, in the thread of `jobs`."""
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
