"""Describes how a run ended early: by which exception, and at which line of the user's code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from ..contract.source_line import SourceLine, whose_is
from .tracebacks import entries, users_part


@dataclass(frozen=True, slots=True)
class Ending:
    """An exception that ended a run, or a thread of it, before its last line."""

    kind: str
    """The name of the exception's class."""
    message: str
    """The exception's message, empty if it has none or can't be turned into a string."""
    source: SourceLine | None
    """The innermost line of the user's own code in the traceback, else the innermost line of a
    library, else the outermost line."""
    thread: str | None = None
    """The thread's name, None for the thread that recorded."""

    @classmethod
    def of(cls, error: BaseException, thread: str | None = None) -> Ending | None:
        """Returns the ending by `error`, or None for a SystemExit with status 0, which is no
        failure."""
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return None
        try:
            message = str(error)
        except Exception:
            message = ""
        return cls(type(error).__name__, message, _last_line(error), thread)

    @property
    def sentence(self) -> str:
        """A sentence such as `The run ended early, by KeyError at train.py:12: x = names[key]`,
        without a period."""
        who = "The run" if self.thread is None else f"The thread {self.thread!r}"
        status = f" ({self.message})" if self.kind == "SystemExit" else ""
        where = f" at {self.source}" if self.source else ""
        return f"{who} ended early, by {self.kind}{status}{where}"


def _last_line(error: BaseException) -> SourceLine | None:
    passed = list(entries(users_part(error.__traceback__)))
    for whose in ("the user's", "a library's"):
        for entry in reversed(passed):
            if whose_is(entry.tb_frame.f_code.co_filename) == whose:
                return _line_of(entry)
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return SourceLine(error.filename, error.lineno, "<module>", (error.text or "").strip())
    return _line_of(passed[0]) if passed else None


def _line_of(entry: TracebackType) -> SourceLine:
    code = entry.tb_frame.f_code
    return SourceLine(code.co_filename, entry.tb_lineno, code.co_qualname)


@contextmanager
def threads_that_end(note: Callable[[BaseException, str], None]) -> Iterator[None]:
    """Calls `note` with each exception that ends a thread in the block, and the thread's name."""
    before = threading.excepthook

    def hook(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            note(args.exc_value, args.thread.name if args.thread else "unknown")
        before(args)

    threading.excepthook = hook
    try:
        yield
    finally:
        if threading.excepthook is hook:
            threading.excepthook = before
