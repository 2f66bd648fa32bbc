"""How much Python a call runs, counted: a loop over the requests is seen, and no clock is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from debubble.contract.source_line import is_machinery


def python_instructions(call: Callable[[], object]) -> int:
    """How many instructions of Python `call` runs, but for those of libraries. It is the same
    number each time, once what only a first call does is over: call it before."""
    return instructions_in(lambda file: not is_machinery(file), call)


def instructions_in(counts: Callable[[str], bool], call: Callable[[], object]) -> int:
    """How many `call` runs of the files that count; what a C function does is one."""
    executed = 0

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal executed
        if not counts(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True
        executed += event == "opcode"
        return watch

    # Python 3.12 looks for opcodes only if a frame has asked for them before it begins to.
    sys._getframe().f_trace_opcodes = True
    watching_before = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(watching_before)
    return executed
