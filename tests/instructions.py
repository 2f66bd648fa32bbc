"""How much a call makes the interpreter do: the same on every machine, however busy."""

from collections.abc import Callable
from typing import Any

from debubble.workshop.instructions import instructions_in


def instructions_of(call: Callable[[], Any], within: str = "") -> int:
    """Python instructions that `call()` executes in files whose path has `within` in it; what C
    functions do counts as one each."""
    call()  # What only a first call does (imports, caches) is over.
    executed = instructions_in(lambda file: within in file, call)
    assert executed, f"nothing was executed in {within or 'any file'}"
    return executed
