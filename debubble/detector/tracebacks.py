"""Removes the frames of debubble's own instruments from tracebacks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType

from ..contract.source_line import PACKAGE, is_machinery

PLUMBING = tuple(
    os.path.join("torch", *parts)
    for parts in (("overrides.py",), ("_ops.py",), ("utils", "_python_dispatch.py"))
)
"""Files of PyTorch through which a call reaches an instrument."""


def users_part(traceback: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without frames of debubble, and without frames of PyTorch between the
    user's code and debubble."""
    return _joined([entry for entry in entries(traceback) if not _is_ours(_file_of(entry))])


def up_to_the_users_line(traceback: TracebackType | None) -> TracebackType | None:
    """Returns `users_part` up to the user's innermost line, without library frames inside it."""
    passed = list(entries(users_part(traceback)))
    while passed and is_machinery(_file_of(passed[-1])):
        passed.pop()
    return _joined(passed)


def entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yields the entries of a traceback, the innermost last."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _joined(entries: list[TracebackType]) -> TracebackType | None:
    joined = None
    for entry in reversed(entries):
        joined = TracebackType(joined, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return joined


def _file_of(entry: TracebackType) -> str:
    return entry.tb_frame.f_code.co_filename


def _is_ours(file: str) -> bool:
    return file == "<frozen runpy>" or file.startswith(PACKAGE) or file.endswith(PLUMBING)
