"""Counts the Python instructions of a call: the same on every machine, however busy."""

from collections.abc import Callable
from typing import Any

from debubble.exercises.instructions import instructions_in


def instructions_of(call: Callable[[], Any], within: str = "") -> int:
    """Returns how many Python instructions `call()` executes in files whose path has `within` in
    it. A C function counts as one instruction."""
    call()  # A first call also does imports and fills caches.
    executed = instructions_in(lambda file: within in file, call)
    assert executed, f"nothing was executed in {within or 'any file'}"
    return executed
