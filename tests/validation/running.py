"""Runs parts: measurements one after another, and all other parts side by side on one device."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from xml.etree import ElementTree

from .parts import ROOT, Part, environment
from .record import Result

WHERE_SHARED = {
    # GiB of GPU memory, besides a CUDA context.
    "DEBUBBLE_GPU_MEMORY": "1",
    # By default PyTorch and its compiler have a thread, and a process, for each core.
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
"""Environment variables that limit a process which shares GPU and host with other parts; the
caller's environment wins."""


def run_all(
    parts: Sequence[Part],
    processes: int,
    seconds: Callable[[Part], float],
    deadline: float | None = None,
) -> Iterator[tuple[Part, Result]]:
    """Runs all parts, and yields each with its result, as soon as it has one. At most `processes`
    processes use the device at once; parts that take longest by `seconds` begin first. A part that
    still runs at `deadline` (of `time.monotonic`) is ended with the result "cut"; parts that have
    not begun by then have no result."""
    sharing = sorted((part for part in parts if not part.alone), key=seconds, reverse=True)
    yield from _side_by_side(sharing, processes, deadline)
    for part in parts:
        if part.alone and not _is_over(deadline):
            yield part, run(part, limited=not part.measures, deadline=deadline)


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _side_by_side(
    parts: Sequence[Part], processes: int, deadline: float | None
) -> Iterator[tuple[Part, Result]]:
    waiting, running, free = list(parts), {}, processes
    with ThreadPoolExecutor(max_workers=max(1, processes)) as pool:
        while waiting or running:
            if _is_over(deadline):
                waiting.clear()
            for part in list(waiting):
                if (needed := min(part.processes, processes)) <= free:
                    waiting.remove(part)
                    running[pool.submit(run, part, limited=True, deadline=deadline)] = part
                    free -= needed
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield _taken_out(running, done)
                free = processes - sum(min(part.processes, processes) for part in running.values())


def _taken_out(running: dict[Future[Result], Part], done: Future[Result]) -> tuple[Part, Result]:
    return running.pop(done), done.result()


def run(part: Part, *, limited: bool = False, deadline: float | None = None) -> Result:
    """Runs a part in a process and returns its result. With `limited` the process leaves other
    parts their share of the memory, and its output is printed at its end."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        extra = [f"--junitxml={report}"] if part.counts_tests else []
        start = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, *part.arguments, *extra],
            cwd=ROOT,
            env=(WHERE_SHARED if limited else {}) | environment(part.device),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if limited else None,
            stderr=subprocess.STDOUT if limited else None,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        output, is_cut = _until(process, deadline)
        seconds = round(time.monotonic() - start, 1)
        tests = counts(report) if part.counts_tests and not is_cut else {}
    print(f"\n=== {part.name}: python {' '.join(part.arguments)}", flush=True)
    print(output or "", end="", flush=True)
    if is_cut:
        return {"status": "cut", "cut_after": seconds}
    # A run that skips everything exits with 0 and has proved nothing.
    passed = process.returncode == 0 and tests.get("passed") != 0
    return {
        "status": "passed" if passed else "failed",
        "exit_code": process.returncode,
        "seconds": seconds,
        **tests,
    }


def _until(process: subprocess.Popen[str], deadline: float | None) -> tuple[str | None, bool]:
    """Waits until the process ends, or kills it at the deadline. Returns (its output, True if it
    was killed)."""
    left = None if deadline is None else max(0.1, deadline - time.monotonic())
    try:
        return process.communicate(timeout=left)[0], False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], True


def counts(report: Path) -> Result:
    """Returns the numbers of tests that passed, failed and were skipped, the names of the failed
    ones, the reasons of the skips, and the figures that tests recorded with `record_property`, from
    a JUnit report."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    outcomes: dict[str, list[str]] = {"failed": [], "skipped": []}
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes["failed"].append(f"{case.get('classname')}::{case.get('name')}")
        elif (skipped := case.find("skipped")) is not None:
            outcomes["skipped"].append(reason(skipped))
    failed, skipped = outcomes["failed"], outcomes["skipped"]
    return {
        "passed": len(cases) - len(failed) - len(skipped),
        "failed": len(failed),
        "skipped": len(skipped),
        "failures": failed,
        "skipped_because": sorted(set(skipped)),
        **({"figures": figures} if (figures := dict(_figures(cases))) else {}),
    }


def _figures(cases: list[ElementTree.Element]) -> Iterator[tuple[str, dict[str, str]]]:
    for case in cases:
        found = {each.get("name", ""): each.get("value", "") for each in case.iter("property")}
        if found:
            yield f"{case.get('classname')}::{case.get('name')}", found


def reason(skipped: ElementTree.Element) -> str:
    """Returns why a test was skipped. For a module that was skipped whole, JUnit has the reason in
    the text: `(file, line, reason)`."""
    message = skipped.get("message", "")
    if message == "collection skipped" and skipped.text:
        return ast.literal_eval(skipped.text)[2].removeprefix("Skipped: ")
    return message
