"""Runs parts: those that measure one after another, the others side by side on one device."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from xml.etree import ElementTree

from .parts import ROOT, Part, environment

WHERE_SHARED = {
    # GiB of the GPU's, beside a CUDA context.
    "DEBUBBLE_GPU_MEMORY": "1",
    # By themselves PyTorch and its compiler have a thread, and a process, for each core.
    "OMP_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}
"""What a process takes that shares GPU and host with others; who runs this may say otherwise."""
Result = dict[str, Any]
"""What the record keeps of a part."""


def run_all(
    parts: Sequence[Part], processes: int, seconds: Callable[[Part], float]
) -> Iterator[tuple[Part, Result]]:
    """Each part with its result, as soon as it has one. At most `processes` processes use the
    device at once; `seconds` says how long a part took before, since the longest begin first."""
    sharing = sorted((part for part in parts if not part.alone), key=seconds, reverse=True)
    yield from _side_by_side(sharing, processes)
    for part in parts:
        if part.alone:
            yield part, run(part, limited=not part.measures)


def _side_by_side(parts: Sequence[Part], processes: int) -> Iterator[tuple[Part, Result]]:
    waiting, running, free = list(parts), {}, processes
    with ThreadPoolExecutor(max_workers=max(1, processes)) as pool:
        while waiting or running:
            for part in list(waiting):
                if (needed := min(part.processes, processes)) <= free:
                    waiting.remove(part)
                    running[pool.submit(run, part, limited=True)] = part
                    free -= needed
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                yield _taken_out(running, done)
                free = processes - sum(min(part.processes, processes) for part in running.values())


def _taken_out(running: dict[Future[Result], Part], done: Future[Result]) -> tuple[Part, Result]:
    return running.pop(done), done.result()


def run(part: Part, *, limited: bool = False) -> Result:
    """Runs a part. `limited`: it leaves others their share of the memory, and its output is printed
    once it is over."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        extra = [f"--junitxml={report}"] if part.counts_tests else []
        limits = WHERE_SHARED if limited else {}
        start = time.monotonic()
        finished = subprocess.run(
            [sys.executable, *part.arguments, *extra],
            cwd=ROOT,
            env=limits | environment(part.device),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if limited else None,
            stderr=subprocess.STDOUT if limited else None,
            text=True,
            errors="replace",
            check=False,
        )
        seconds = round(time.monotonic() - start, 1)
        tests = counts(report) if part.counts_tests else {}
    print(f"\n=== {part.name}: python {' '.join(part.arguments)}", flush=True)
    print(finished.stdout or "", end="", flush=True)
    # A run that skips everything exits with 0 and has proved nothing.
    passed = finished.returncode == 0 and tests.get("passed") != 0
    return {
        "status": "passed" if passed else "failed",
        "exit_code": finished.returncode,
        "seconds": seconds,
        **tests,
    }


def counts(report: Path) -> Result:
    """What passed, failed and was skipped, and why, from a JUnit report."""
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
    }


def reason(skipped: ElementTree.Element) -> str:
    """Of a module that was skipped whole, JUnit keeps it in the text: `(file, line, reason)`."""
    message = skipped.get("message", "")
    if message == "collection skipped" and skipped.text:
        return ast.literal_eval(skipped.text)[2].removeprefix("Skipped: ")
    return message


class MemoryWatch:
    """How much of the GPU's memory was in use at most since this was made, beyond what was then."""

    QUERY = (
        "nvidia-smi",
        "--query-gpu=memory.used",
        "--format=csv,noheader,nounits",
        "-lms",
        "200",
    )

    def __init__(self) -> None:
        self._seen: list[float] = []
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
        query = [*self.QUERY, f"--id={first}"]
        try:
            self._process = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
        except OSError:
            self._process = None
            return
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            if line.strip().isdigit():
                self._seen.append(float(line))

    @property
    def peak_gib(self) -> float | None:
        """None where nobody can tell."""
        return round((max(self._seen) - self._seen[0]) / 1024, 2) if self._seen else None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()


@contextmanager
def watched_memory(device: str) -> Iterator[MemoryWatch | None]:
    watch = MemoryWatch() if device == "cuda" else None
    try:
        yield watch
    finally:
        if watch is not None:
            watch.stop()
