"""Going along into other threads: a mode of PyTorch holds for the thread that enters it only."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any


@contextmanager
def into_threads(enter: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Threads that start in the block, and tasks that it hands to a thread pool, run inside
    `enter()`. A thread that is there already is reached through its pool only."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_inside(thread: threading.Thread) -> None:
        _run_inside(thread, enter)
        start(thread)

    @functools.wraps(submit)
    def submit_inside(pool: ThreadPoolExecutor, task: Callable, /, *args: Any, **kwargs: Any):
        return submit(pool, functools.partial(_inside, enter, task), *args, **kwargs)

    threading.Thread.start, ThreadPoolExecutor.submit = start_inside, submit_inside
    try:
        yield
    finally:
        threading.Thread.start, ThreadPoolExecutor.submit = start, submit


def _run_inside(thread: threading.Thread, enter: Callable[[], AbstractContextManager[Any]]) -> None:
    """Replaces `run` of this one thread, whatever its class, until it runs."""
    run, replaced = thread.run, "run" in vars(thread)

    def inside() -> None:
        if replaced:
            thread.run = run
        else:
            del thread.run
        with enter():
            run()

    thread.run = inside


def _inside(
    enter: Callable[[], AbstractContextManager[Any]], task: Callable, *args: Any, **kwargs: Any
) -> Any:
    with enter():
        return task(*args, **kwargs)
