"""The parts of a validation: each a process of its own, since a process has one accelerator."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from debubble.accelerator.triton_mode import can_interpret

ROOT = Path(__file__).parents[2]
SYSTEMS = ("pinned_h2d", "sync_free", "gdn", "flex_graph", "offload", "engine")
"""Those with a benchmark."""
RANKS = ("tests/sync_free/test_data_parallel.py", "tests/engine/test_data_parallel.py")


@dataclass(frozen=True)
class Part:
    """One command: `arguments` follow the interpreter, `device` is what it runs on."""

    name: str
    device: str
    arguments: tuple[str, ...]

    @property
    def counts_tests(self) -> bool:
        return self.arguments[:2] == ("-m", "pytest")


def all_parts(device: str, benchmarks: Path, timelines: Path) -> list[Part]:
    """`device` is "cuda", or "sim" to try the validation itself where there is no GPU. Sim is part
    of it wherever Triton's interpreter works."""
    chapters = ("-p", "no:python", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120")
    devices = dict.fromkeys(["sim", device] if can_interpret() else [device])
    return [
        # First, before a long load has made the host slower.
        *(
            Part(f"benchmark-{system}", device, benchmark(system, benchmarks, timelines))
            for system in SYSTEMS
        ),
        *(Part(f"tests-{name}", name, tests_on(name)) for name in devices),
        # By itself, for a machine with several GPUs that nobody wants to keep for longer.
        Part("ranks", device, pytest(*RANKS, "--device", device)),
        Part("katas", device, pytest("katas", "--impl", "solutions", "--device", device)),
        Part(
            "chapters", device, pytest(*chapters, *in_parallel(5, "--dist=loadscope"), "chapters")
        ),
    ]


def pytest(*arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest", "-p", "no:cacheprovider", *arguments)


def tests_on(device: str) -> tuple[str, ...]:
    """A part on sim leaves the GPU's tests out, and the other way round; none needs a browser."""
    others = {"sim": "gpu", "cuda": "sim"}[device]
    arguments = pytest("tests", "-m", f"not browser and not {others}", "--device", device)
    # Verdicts rest on no clock, so they may share the GPU; most of their time is compilation.
    parallel = in_parallel(8)
    limited = ("--timeout=300",) if find_spec("pytest_timeout") else ()
    return (*arguments, *parallel, *limited)


def in_parallel(most_workers: int, *how: str) -> tuple[str, ...]:
    workers = min(most_workers, os.cpu_count() or 1)
    return ("-n", str(workers), *how) if find_spec("xdist") else ()


def benchmark(system: str, folder: Path, timelines: Path) -> tuple[str, ...]:
    module = f"solutions.{system}.bench"
    return ("-m", module, "--output", str(folder), "--timelines", str(timelines))


def run(part: Part) -> dict[str, object]:
    """Runs a part, its output going to ours, and returns what the record keeps of it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        extra = [f"--junitxml={report}"] if part.counts_tests else []
        print(f"\n=== {part.name}: python {' '.join(part.arguments)}", flush=True)
        start = time.monotonic()
        finished = subprocess.run(
            [sys.executable, *part.arguments, *extra],
            cwd=ROOT,
            env=environment(part.device),
            stdin=subprocess.DEVNULL,
            check=False,
        )
        seconds = round(time.monotonic() - start, 1)
        tests = counts(report) if part.counts_tests else {}
    # A run that skips everything exits with 0 and has proved nothing.
    passed = finished.returncode == 0 and tests.get("passed") != 0
    return {
        "part": part.name,
        "device": part.device,
        "status": "passed" if passed else "failed",
        "exit_code": finished.returncode,
        "seconds": seconds,
        **tests,
    }


def environment(device: str) -> dict[str, str]:
    """The checkout comes first on the path, and its plugins are known, without installing it."""
    path = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    return os.environ | {
        "DEBUBBLE_DEVICE": device,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTEST_PLUGINS": "debubble.workshop.plugin,debubble.detector.pytest_plugin",
    }


def counts(report: Path) -> dict[str, object]:
    """What passed, failed and was skipped, and why, from a JUnit report."""
    cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
    outcomes = {"failed": [], "skipped": []}
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
