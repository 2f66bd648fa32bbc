"""Runs the checks of each operator in a process of its own, since one may abort."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

import debubble

from .checks import CHECKS, Accepted, Wrong, kinds_of
from .database import operators, types_of

SECONDS = 120
"""The most seconds that a check of an operator with one dtype may take."""


class Finding(NamedTuple):
    operator: str
    dtype: str
    kind: str
    outcome: str
    """The outcome of the check: right, wrong, error, accepted or aborted."""
    why: str = ""


Case = tuple[str, torch.dtype, str]


def cases(name: str, kinds: Iterable[str] = CHECKS) -> list[Case]:
    op = operators()[name]
    on_cuda, on_cpu_only = types_of(op)
    return [
        (name, dtype, kind)
        for dtypes, is_cuda in ((on_cuda, True), (on_cpu_only, False))
        for dtype in sorted(dtypes, key=str)
        for kind in kinds_of(op, dtype, is_cuda)
        if kind in kinds
    ]


def run(names: Iterable[str], kinds: Iterable[str] = CHECKS) -> Iterator[Finding]:
    """Runs the checks of these operators in forked processes, and yields the findings. Call it in a
    process with one thread, before any backward pass."""
    operators()
    debubble.accelerator("sim")
    for name in names:
        left = cases(name, kinds)
        while left:
            findings = _in_a_child(left)
            yield from findings
            left = left[len(findings) :]


def _in_a_child(left: list[Case]) -> list[Finding]:
    """Runs the cases in a forked process, up to the case that ends it ("aborted"), and returns the
    findings."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        _report(left, writes)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as lines:
        found = [Finding(*json.loads(line)) for line in lines]
    _, status = os.waitpid(child, 0)
    if len(found) < len(left):
        name, dtype, kind = left[len(found)]
        found.append(Finding(name, _spoken(dtype), kind, "aborted", f"status {status}"))
    return found


def _report(left: list[Case], writes: int) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    os.dup2(silent, 1)
    warnings.simplefilter("ignore")
    with os.fdopen(writes, "w") as lines:
        for name, dtype, kind in left:
            signal.alarm(SECONDS)
            finding = _check(name, dtype, kind)
            signal.alarm(0)
            lines.write(json.dumps(finding) + "\n")
            lines.flush()


def _check(name: str, dtype: torch.dtype, kind: str) -> Finding:
    what = (name, _spoken(dtype), kind)
    try:
        CHECKS[kind](operators()[name], dtype)
    except Wrong as error:
        return Finding(*what, "wrong", str(error))
    except Accepted as error:
        return Finding(*what, "accepted", str(error))
    except Exception as error:
        return Finding(*what, "error", f"{type(error).__name__}: {_first_line(error)}")
    return Finding(*what, "right")


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]


def _spoken(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def counted(findings: Iterable[Finding]) -> dict[str, dict[str, int]]:
    """Returns {kind of check: {outcome: how often it occurred}}."""
    table: dict[str, dict[str, int]] = {}
    for finding in findings:
        of_kind: dict[str, Any] = table.setdefault(finding.kind, {})
        of_kind[finding.outcome] = of_kind.get(finding.outcome, 0) + 1
    return table
