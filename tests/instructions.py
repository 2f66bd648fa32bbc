"""How much a call makes the interpreter do: the same on every machine, however busy."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions_of(call: Callable[[], Any], within: str = "") -> int:
    """Python instructions that `call()` executes in files whose path has `within` in it; what C
    functions do counts as one each."""
    call()  # What only a first call does (imports, caches) is over.
    executed = 0

    def trace(frame: FrameType, event: str, argument: object):
        nonlocal executed
        frame.f_trace_opcodes = True
        executed += event == "opcode" and within in frame.f_code.co_filename
        return trace

    # Python 3.12 looks for opcodes only if a frame has asked for them before it begins to.
    sys._getframe().f_trace_opcodes = True
    traced_before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(traced_before)
    assert executed, f"nothing was executed in {within or 'any file'}"
    return executed
