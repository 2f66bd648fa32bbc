"""`python -m tests.validation.deep`: all of the tests that go deep, on sim, recorded.

What came of them is kept in assets/deep.json, with a hash of what they rest on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from tests.deep import MARKER

from .parts import PLUGINS, ROOT
from .record import is_current, now, read, versions, write
from .sources import SourceTree

RECORD = ROOT / "assets/deep.json"
MODELLED_ON = ("assets/calibration", "assets/benchmarks/nvidia-h200/engine.json")
"""Whose times sim has, and what its engine's steps are held against."""
BESIDE = (*PLUGINS, "chapters", "katas", "solutions", *MODELLED_ON)
"""What deep tests run and read without importing it."""


def rests_on() -> list[str]:
    """The test files with a test that goes deep."""
    tests = ROOT / "tests"
    files = (path for path in tests.rglob("test_*.py") if f"mark.{MARKER}" in path.read_text())
    return [str(path.relative_to(ROOT)) for path in sorted(files)]


def source() -> str:
    return SourceTree(ROOT).hash_of([*rests_on(), *BESIDE])


def run(processes: int) -> bool:
    """Every deep test on sim; what comes of it is recorded."""
    command = [sys.executable, "-m", "pytest", *rests_on(), "-m", MARKER, "--deep", "--device=sim"]
    command += ["-n", str(processes), "--dist=loadfile", "--timeout=600"]
    started = time.perf_counter()
    status = "failed" if subprocess.run(command, cwd=ROOT, check=False).returncode else "passed"
    seconds = round(time.perf_counter() - started)
    about = {"date": now(), "source_sha256": source(), "versions": versions("sim")}
    result = {"status": status, "seconds": seconds, "processes": processes, **about}
    write({"parts": {MARKER: result}}, RECORD)
    return status == "passed"


def print_state() -> None:
    """Whether the recorded run is of this source."""
    result = read(RECORD).get("parts", {}).get(MARKER)
    if not result:
        print("deep tests: not run yet; `make test-deep` runs them")
        return
    source_now = source()
    which = "this source" if result["source_sha256"] == source_now else "an older source"
    status = "all passed" if is_current(result, source_now) else result["status"]
    print(f"deep tests: {status} on {result['date'][:10]}, for {which}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.validation.deep", description=__doc__)
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    parser.add_argument("--state", action="store_true", help="only say whether the record is new")
    options = parser.parse_args()
    if options.state:
        print_state()
        return 0
    return int(not run(options.processes))


if __name__ == "__main__":
    sys.exit(main())
