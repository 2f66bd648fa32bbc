"""How much a call makes the interpreter do: the same on every machine, however busy."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions_of(call: Callable[[], Any]) -> int:
    """Python instructions that `call()` executes; what C functions do within counts as one each."""
    call()  # What only a first call does (imports, caches) is over.
    executed = 0

    def trace(frame: FrameType, event: str, argument: object):
        nonlocal executed
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        executed += event == "opcode"
        return trace

    traced_before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(traced_before)
    return executed
