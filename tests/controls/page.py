"""The page docs/guards.md: each guard, what its control leaves out, and what sim proves then."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .running import Seen
from .table import ROOT, Control

PAGE = ROOT / "docs" / "guards.md"
HEAD = """# Guards, and what happens without each

A guard is a line that only ordering, a mask or an unused slot needs. Without it most runs are
right, so a review may call it superfluous. Each row leaves one out, and a named test fails on it.
For a race, sim names the two lines that touch the same memory. `python -m tests.controls` runs all
controls and writes this page. On a GPU, `tests/controls/test_on_a_device.py` tries ten of them
1,000 times without the guard and 10,000 times with it, with the same delay.
"""
GUARDS = """
| guard | without this line | what sim shows | test |
|---|---|---|---|
"""
FAULTS = """
## Faults that other engines shipped

Each was reported for the project named. The fault is put into our code, and the test that names
the report fails.

| report | fault | code | test |
|---|---|---|---|
"""
LINE_NUMBER = re.compile("(?<=[.]py):[0-9]+")
STRAY = ("illegal memory access", "outside the memory")
"""Words of sim's errors about a kernel that touches memory outside of its arguments."""


def page_of(results: Sequence[tuple[Control, Seen]]) -> str:
    """Returns the whole page for the results of all controls."""
    guards = [row_of(*result) for result in results if result[0].kind]
    faults = [fault_row(control) for control, _ in results if control.lessons]
    return HEAD + GUARDS + "\n".join(guards) + "\n" + FAULTS + "\n".join(faults) + "\n"


def row_of(control: Control, seen: Seen) -> str:
    """Returns the row of a guard: sim's sentence about a race, with the buffer and both lines, or
    else that memory is touched outside of its tensor, or that values are wrong."""
    shown = "values are wrong"
    if seen.race:
        # Without the numbers of lines, which change with every edit.
        shown = f"`{_cell(LINE_NUMBER.sub('', seen.race))}`"
    elif any(words in seen.error for words in STRAY):
        shown = "memory outside of a tensor is touched"
    code = f"`{control.file}`: `{_cell(control.left_out)}`"
    return f"| {control.kind}: {control.name} | {code} | {shown} | `{_test(control)}` |"


def fault_row(control: Control) -> str:
    """Returns the row of a fault that other projects reported."""
    code = f"`{control.file}`: `{_cell(control.left_out)}`"
    reports = ", ".join(control.lessons)
    return f"| {reports} | {control.name} | {code} | `{_test(control)}` |"


def _test(control: Control) -> str:
    file, _, name = control.test.partition("::")
    return f"{file}::{name.partition('[')[0]}" if name else file


def _cell(code: str) -> str:
    return code.replace("|", "\\|")
