"""The process that does a notebook's work on the accelerator, so that its kernel stays free."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from functools import cache, partial
from multiprocessing.sharedctypes import Synchronized
from typing import ParamSpec, TypeVar

from .run import watch_for_unwanted

Taken = ParamSpec("Taken")
Given = TypeVar("Given")


@cache
def shared_worker() -> Worker:
    """Returns one worker for all dashboards of a kernel, so that their measurements run one after
    the other."""
    return Worker()


# A forked process has no thread that would serve the worker of its parent.
os.register_at_fork(after_in_child=shared_worker.cache_clear)


class Worker(Executor):
    """An executor with one process, started by its first job and replaced by the first job after a
    crash.

    The process has the environment that the kernel has at that time, DEBUBBLE_DEVICE included, and
    ends with the kernel.
    """

    def __init__(self) -> None:
        self._spawn = multiprocessing.get_context("spawn")
        self._submitted = 0
        self._unwanted: Synchronized[int] = self._spawn.Value("Q", 0)
        self._pool: ProcessPoolExecutor | None = None
        self._broken: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def submit(
        self, job: Callable[Taken, Given], /, *args: Taken.args, **kwargs: Taken.kwargs
    ) -> Future[Given]:
        with self._lock:
            self._submitted += 1
            numbered = partial(perform_until_unwanted, self._submitted, job)
        pool = self._pool_of_one()
        try:
            future = pool.submit(numbered, *args, **kwargs)
        except BrokenExecutor:
            self._forget(pool)
            pool = self._pool_of_one()
            future = pool.submit(numbered, *args, **kwargs)
        future.add_done_callback(partial(self._forget_if_broken, pool))
        return future

    def end_early(self) -> None:
        """Ends all jobs so far at their next call of `stop_if_unwanted`."""
        with self._lock:
            self._unwanted.value = self._submitted

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait, cancel_futures=cancel_futures)

    def _pool_of_one(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    1, self._spawn, initializer=stay_with_the_kernel, initargs=(self._unwanted,)
                )
            return self._pool

    def _forget_if_broken(self, pool: ProcessPoolExecutor, future: Future[Given]) -> None:
        if not future.cancelled() and isinstance(future.exception(), BrokenExecutor):
            self._forget(pool)

    def _forget(self, pool: ProcessPoolExecutor) -> None:
        """Drops a broken pool, so that the next job starts another one. A pool that ends holds its
        lock while it tells its futures, and takes the lock again when it is freed: if it were freed
        there, it would wait for itself. So a reference to the last broken pool is kept."""
        with self._lock:
            if self._pool is pool:
                self._pool, self._broken = None, pool


_unwanted: Synchronized[int]
"""The number of the last job whose result is no longer wanted. The kernel writes it, the worker's
process reads it."""


def perform_until_unwanted(
    number: int, job: Callable[Taken, Given], *args: Taken.args, **kwargs: Taken.kwargs
) -> Given:
    watch_for_unwanted(lambda: number <= _unwanted.value)
    return job(*args, **kwargs)


def stay_with_the_kernel(unwanted: Synchronized[int]) -> None:
    """Makes the process ignore the interrupt of a cell, which goes to all processes of the kernel,
    and end when the kernel ends, in whatever way."""
    global _unwanted
    _unwanted = unwanted
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=[multiprocessing.parent_process()], daemon=True).start()


def _end_with(kernel: multiprocessing.process.BaseProcess) -> None:
    kernel.join()
    os._exit(1)


def check_that_it_can_be_sent(run: Callable[..., object]) -> None:
    """Raises ValueError if another process can't import `run` and its parts, for example because
    the notebook defines them."""
    try:
        sent = pickle.dumps(run)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"run can't be sent to a process of its own ({error}): {ELSEWHERE}"
        ) from None
    if b"__main__" in sent:
        raise ValueError(
            f"run is defined in this notebook, where no other process finds it: {ELSEWHERE}"
        )


ELSEWHERE = "give a function of a module, or jobs=ThreadPoolExecutor(1) to run it in the kernel"
