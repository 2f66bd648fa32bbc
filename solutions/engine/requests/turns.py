"""Calls of engines run one after another: a call of another thread waits for its turn.

The turn belongs to the process, since its engines share one accelerator: while one of them captures
a graph, the launches of another would be captured with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from threading import Lock, get_ident
from typing import Concatenate, ParamSpec, Self, TypeVar

from .request import Request

Caller = TypeVar("Caller", bound="TakesTurns")
Given = ParamSpec("Given")
Result = TypeVar("Result")


class Turn:
    """The process's one turn."""

    lock = Lock()
    """Held while a call runs."""
    thread: int | None = None
    """The thread whose call runs."""


class TakesTurns:
    """A base class for an engine, whose methods are marked with `in_turn`.

    It also drops requests whose answers are no longer read. Any thread may name such a request at
    any time, also the garbage collector in the middle of a step: the request is cancelled when that
    call has ended.
    """

    _unwanted: deque[Request]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        # Here, since to make an engine is a call too.
        engine = super().__new__(cls)
        engine._unwanted = deque()
        return engine

    def cancel_request(self, request: Request) -> None:
        """Ends a request, unless it has ended."""
        raise NotImplementedError

    def forget(self, request: Request) -> None:
        """Cancels a request whose answer is no longer read. Doesn't wait for a call that runs."""
        self._unwanted.append(request)
        self._tidy()

    def _tidy(self) -> None:
        # A call that runs looks for unwanted requests when it has ended.
        if self._unwanted and not Turn.lock.locked():
            _in_passing(self)

    def _cancel_unwanted(self) -> None:
        while self._unwanted:
            self.cancel_request(self._unwanted[0])
            self._unwanted.popleft()


def in_turn(
    method: Callable[Concatenate[Caller, Given], Result],
) -> Callable[Concatenate[Caller, Given], Result]:
    """Lets `method` run once no other call of an engine does. RuntimeError for a call from within
    another one, which could never begin: a signal handler or a finaliser may make such calls."""

    @wraps(method)
    def call(self: Caller, /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if Turn.thread == get_ident() and Turn.lock.locked():
            raise RuntimeError(
                f"{method.__name__} was called while this thread is in another call of an engine, "
                "as in a signal handler: call it when that call has returned"
            )
        try:
            with Turn.lock:
                Turn.thread = get_ident()
                try:
                    self._cancel_unwanted()
                    return method(self, *args, **kwargs)
                finally:
                    Turn.thread = None
        finally:
            self._tidy()

    return call


@in_turn
def _in_passing(engine: TakesTurns) -> None:
    """Does nothing itself: each call cancels unwanted requests first."""
