"""Going along into other threads: a mode of PyTorch holds for the thread that enters it only."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

Given = TypeVar("Given")

Enter = Callable[[], AbstractContextManager[object]]


@contextmanager
def into_threads(enter: Enter) -> Iterator[None]:
    """Threads that start in the block, and tasks that it hands to a thread pool, run inside
    `enter()`. A thread that is there already is reached through its pool only."""
    start: Callable[..., None] = threading.Thread.start
    submit: Callable[..., Future[object]] = ThreadPoolExecutor.submit

    @functools.wraps(start)
    def start_inside(thread: threading.Thread) -> None:
        _run_inside(thread, enter)
        start(thread)

    @functools.wraps(submit)
    def submit_inside(
        pool: ThreadPoolExecutor, task: Callable[..., object], /, *args: object, **kwargs: object
    ) -> Future[object]:
        return submit(pool, functools.partial(_inside, enter, task), *args, **kwargs)

    with (
        _in_place_of(threading.Thread, "start", start_inside),
        _in_place_of(ThreadPoolExecutor, "submit", submit_inside),
    ):
        yield


@contextmanager
def _in_place_of(owner: type, name: str, method: Callable[..., object]) -> Iterator[None]:
    replaced = getattr(owner, name)
    setattr(owner, name, method)
    try:
        yield
    finally:
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
