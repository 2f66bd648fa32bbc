"""Runs calls of engines one after another: a call of another thread waits for its turn.

The turn belongs to the process, since its engines share one accelerator: while one of them captures
a graph, the launches of another would be captured with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock, get_ident
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from .request import Request


class TakesTurns(Protocol):
    """An engine, whose calls run one at a time."""

    unwanted: deque[Request]
    """Requests whose answers are no longer read. Any thread may add one at any time, and so may the
    garbage collector in the middle of a step: the next call in turn cancels them first."""

    def cancel_request(self, request: Request) -> None:
        """Ends a request, unless it has already ended."""


Caller = TypeVar("Caller", bound=TakesTurns)
Given = ParamSpec("Given")
Result = TypeVar("Result")


class Turn:
    """The state of the process's single turn: at any time one call of an engine has it."""

    lock = Lock()
    """Held while a call of an engine runs."""
    thread: int | None = None
    """The thread whose call of an engine runs, or None."""


@contextmanager
def turn_of(engine: TakesTurns, name: str) -> Iterator[None]:
    """Waits until no other call of an engine runs, and runs the block. A call from within another
    one, as a signal handler or a finaliser may make it, raises RuntimeError, which names `name`,
    since it would wait forever."""
    if Turn.thread == get_ident() and Turn.lock.locked():
        raise RuntimeError(
            f"{name} was called while this thread is in another call of an engine, as in a signal "
            "handler: call it when that call has returned"
        )
    try:
        with Turn.lock:
            Turn.thread = get_ident()
            try:
                while engine.unwanted:
                    engine.cancel_request(engine.unwanted[0])
                    engine.unwanted.popleft()
                yield
            finally:
                Turn.thread = None
    finally:
        cancel_unwanted(engine)


def in_turn(
    method: Callable[Concatenate[Caller, Given], Result],
) -> Callable[Concatenate[Caller, Given], Result]:
    """Makes a method of an engine run in `turn_of` it."""

    @wraps(method)
    def call(self: Caller, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        with turn_of(self, method.__name__):
            return method(self, *args, **kwargs)

    return call


def cancel_unwanted(engine: TakesTurns) -> None:
    """Cancels the unwanted requests, unless a call is running: that call does so at its end."""
    if engine.unwanted and not Turn.lock.locked():
        with turn_of(engine, "cancel_unwanted"):
            pass  # Each turn begins by cancelling them.
