"""Runs calls of engines one after another: a call of another thread waits for its turn.

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
    """The state of the process's single turn: at any time one call of an engine has it."""

    lock = Lock()
    """Held while a call of an engine runs."""
    thread: int | None = None
    """The thread whose call of an engine runs, or None."""


class TakesTurns:
    """A base class for an engine, whose methods are marked with `in_turn`.

    It also drops requests whose answers are no longer read. Any thread may pass such a request to
    `forget` at any time, and so may the garbage collector in the middle of a step: the request is
    cancelled when the running call has ended.
    """

    _unwanted: deque[Request]

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        # Set here and not in `__init__`, which is a call in turn itself.
        engine = super().__new__(cls)
        engine._unwanted = deque()
        return engine

    def cancel_request(self, request: Request) -> None:
        """Ends a request, unless it has already ended."""
        raise NotImplementedError

    def forget(self, request: Request) -> None:
        """Cancels a request whose answer is no longer read. Doesn't wait for a running call."""
        self._unwanted.append(request)
        self._tidy()

    def _tidy(self) -> None:
        # A running call looks for unwanted requests when it has ended.
        if self._unwanted and not Turn.lock.locked():
            _in_passing(self)

    def _cancel_unwanted(self) -> None:
        while self._unwanted:
            self.cancel_request(self._unwanted[0])
            self._unwanted.popleft()


def in_turn(
    method: Callable[Concatenate[Caller, Given], Result],
) -> Callable[Concatenate[Caller, Given], Result]:
    """Makes `method` wait until no other call of an engine runs. A call from within another one, as
    a signal handler or a finaliser may make it, raises RuntimeError, since it would wait
    forever."""

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
    """Does nothing itself: each call in turn cancels unwanted requests first."""
