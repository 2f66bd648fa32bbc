"""Carries a context manager into other threads: a PyTorch mode only applies to the thread that
enters it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

Given = TypeVar("Given")

Enter = Callable[[], AbstractContextManager[object]]
Choose = Callable[[bool], Enter | None]


@contextmanager
def into_threads(enter: Enter) -> Iterator[None]:
    """Runs the threads that start in the block, and the tasks that it submits to a thread pool,
    inside `enter()`. A thread that already runs is reached only through its pool."""
    with into_chosen_threads(lambda in_a_pool: enter):
        yield


@contextmanager
def into_chosen_threads(choose: Choose) -> Iterator[None]:
    """Runs the threads and tasks of the block inside the context manager that `choose` returns.
    `choose` is called with False where a thread starts and with True where a task is submitted; if
    it returns None, that thread or task runs as usual."""
    start: Callable[..., None] = threading.Thread.start
    submit: Callable[..., Future[object]] = ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_inside(thread: threading.Thread) -> None:
        enter = choose(False)
        if enter is not None:
            _run_inside(thread, enter)
        start(thread)

    @functools.wraps(submit)
    def submit_inside(
        pool: ThreadPoolExecutor, task: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Future[object]:
        enter = choose(True)
        if enter is None:
            return submit(pool, task, *args, **kwargs)
        return submit(pool, functools.partial(_inside, enter, task), *args, **kwargs)

    with (
        patched(threading.Thread, "start", start_inside),
        patched(ThreadPoolExecutor, "submit", submit_inside),
    ):
        yield


@contextmanager
def patched(owner: object, name: str, method: Callable[..., object]) -> Iterator[None]:
    """Replaces a function of a class or module in the block."""
    replaced = getattr(owner, name)
    setattr(owner, name, method)
    try:
        yield
    finally:
        # A replacement that another thread has made meanwhile stays.
        if getattr(owner, name) is method:
            setattr(owner, name, replaced)


def _run_inside(thread: threading.Thread, enter: Enter) -> None:
    """Replaces `run` of this one thread, whatever its class, until it runs."""
    run, own = thread.run, vars(thread)
    replaced = "run" in own

    def inside() -> None:
        if replaced:
            own["run"] = run
        else:
            del own["run"]
        with enter():
            run()

    own["run"] = inside


def _inside(enter: Enter, task: Callable[..., Given], *args: object, **kwargs: object) -> Given:
    with enter():
        return task(*args, **kwargs)
