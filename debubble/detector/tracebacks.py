"""Tracebacks without the frames that only debubble's instruments put there."""

from __future__ import annotations

import os
from types import TracebackType

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
PLUMBING = tuple(
    os.path.join("torch", *parts)
    for parts in (
        ("overrides.py",),
        ("_ops.py",),
        ("utils", "_python_dispatch.py"),
        ("_dynamo", "eval_frame.py"),
    )
)
"""Files of PyTorch that a call passes through on its way to an instrument."""


def users_part(traceback: TracebackType | None) -> TracebackType | None:
    """The same traceback without frames of debubble, and of PyTorch between the two."""
    frames = []
    while traceback is not None:
        if not _is_ours(traceback.tb_frame.f_code.co_filename):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for entry in reversed(frames):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept


def _is_ours(file: str) -> bool:
    return file.startswith(PACKAGE) or file.endswith(PLUMBING)
