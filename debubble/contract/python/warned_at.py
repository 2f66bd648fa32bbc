"""The place that a warning names: the user's line, and not that of an instrument in between."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..source_line import PACKAGE, source_line
from .follow import patched

SHOWS = "_showwarnmsg"
"""The name of the function in Python's `warnings` through which each warning goes that is shown or
recorded."""


@contextmanager
def at_the_users_line() -> Iterator[None]:
    """Makes warnings raised in the block name the user's line instead of a line of debubble.
    PyTorch warns at the innermost line of Python, which is debubble's if that watches PyTorch's
    calls. Does nothing if Python's `warnings` lacks the function `SHOWS`."""
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
