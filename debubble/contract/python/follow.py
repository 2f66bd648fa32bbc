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
    """Makes threads that are started in the block, and tasks submitted in it to a thread pool, run
    inside `enter()`. A thread that already runs is reached only through its pool."""
    with into_chosen_threads(lambda in_a_pool: enter):
        yield


@contextmanager
def into_chosen_threads(choose: Choose) -> Iterator[None]:
    """Makes each thread started in the block, and each task submitted in it to a thread pool, run
    inside the context manager that `choose` selects. `choose` gets False for a thread and True for
    a task, and returns a function that makes the context manager, or None to run it as usual."""
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
    """Replaces the function `name` of a class or module by `method` in the block. A replacement
    made meanwhile by another thread stays."""
    replaced = getattr(owner, name)
    setattr(owner, name, method)
    try:
        yield
    finally:
        # A replacement that another thread has made meanwhile stays.
        if getattr(owner, name) is method:
            setattr(owner, name, replaced)


def _run_inside(thread: threading.Thread, enter: Enter) -> None:
    """Makes a thread that is about to start, of any class, run inside `enter()`: its own `run` is
    replaced until it is called."""
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
