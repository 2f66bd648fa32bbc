"""Tracebacks without the frames that only debubble's instruments put there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType

from ..contract.source_line import is_machinery

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
PLUMBING = tuple(
    os.path.join("torch", *parts)
    for parts in (("overrides.py",), ("_ops.py",), ("utils", "_python_dispatch.py"))
)
"""Files of PyTorch that a call passes through on its way to an instrument."""


def users_part(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without frames of debubble, and of PyTorch between the two."""
    return _joined([entry for entry in entries(traceback) if not _is_ours(_file_of(entry))])


def up_to_the_users_line(traceback: TracebackType | None) -> TracebackType | None:
    """`users_part` without what PyTorch does behind the line that is to blame."""
    passed = list(entries(users_part(traceback)))
    while passed and is_machinery(_file_of(passed[-1])):
        passed.pop()
    return _joined(passed)


def entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, the innermost last."""
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
