"""The place that a warning names: the user's line, and not that of an instrument in between."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .follow import patched
from .source_line import source_line

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
SHOWS = "_showwarnmsg"
"""Python's function through which each warning goes that is shown or recorded."""


@contextmanager
def at_the_users_line() -> Iterator[None]:
    """Moves the warnings of the block that would name a line of debubble to the user's line below
    it. PyTorch warns at the innermost line of Python, which is an instrument's if one listens to
    PyTorch's calls. Where Python has no such function, nothing is moved."""
    show = getattr(warnings, SHOWS, None)
    if show is None:
        yield
        return

    def moved(message: Any) -> None:
        line = source_line() if message.filename.startswith(PACKAGE) else None
        if line is not None:
            message.filename, message.lineno = line.file, line.line
        show(message)

    with patched(warnings, SHOWS, moved):
        yield
