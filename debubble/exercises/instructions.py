"""Counts the Python instructions that a call runs: this shows a loop over the requests without a
clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from debubble.contract.source_line import is_machinery


def python_instructions(call: Callable[[], object]) -> int:
    """Returns how many Python instructions `call` runs, without those of libraries. The number is
    the same each time once the work of a first call is done, so run `call` once before you
    count."""
    return instructions_in(lambda file: not is_machinery(file), call)


def instructions_in(counts: Callable[[str], bool], call: Callable[[], object]) -> int:
    """Returns how many instructions `call` runs in the files for which `counts` is True; a call of
    a C function is one."""
    executed = 0

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal executed
        if not counts(frame.f_code.co_filename):
            return None
        frame.f_trace_opcodes = True
        executed += event == "opcode"
        return watch

    # Python 3.12 emits opcode events only if a frame has asked for them before tracing begins.
    sys._getframe().f_trace_opcodes = True
    watching_before = sys.gettrace()
    sys.settrace(watch)
    try:
        call()
    finally:
        sys.settrace(watching_before)
    return executed
