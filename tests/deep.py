"""Tests that go deep: `make test` runs a slice of each, `python -m tests.deep` all of it, recorded.

    @pytest.mark.deep(5)
    @pytest.mark.parametrize("optimizations", Optimizations.combinations(), ids=str)
    def test_every_combination_...

`make test` runs the second of every 5 parametrisations, always the same ones. (Not the first, which
often has nothing in it; and 5, since every flag is on and off then: of 32 combinations every 4th
would leave the last two flags as they are.) What a whole run gave is kept in assets/deep.json, with
a hash of what its tests rest on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from .validation.record import is_current, now, read, versions, write
from .validation.sources import SourceTree

MARKER = "deep"
ROOT = Path(__file__).parents[1]
RECORD = ROOT / "assets/deep.json"


def slice_of(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """(those that `make test` runs, the others)."""
    kept, left_out = [], []
    number: Counter[str] = Counter()
    for item in items:
        marker = item.get_closest_marker(MARKER)
        function = item.nodeid.partition("[")[0]
        is_kept = marker is None or number[function] % marker.args[0] == 1
        number[function] += 1
        (kept if is_kept else left_out).append(item)
    return kept, left_out


def rests_on() -> list[str]:
    """The test files with a test that goes deep."""
    tests = ROOT / "tests"
    files = (path for path in tests.rglob("test_*.py") if f"mark.{MARKER}(" in path.read_text())
    return [str(path.relative_to(ROOT)) for path in sorted(files)]


def source() -> str:
    return SourceTree(ROOT).hash_of([*rests_on(), "conftest.py", "debubble/workshop/plugin.py"])


def run(processes: int) -> bool:
    """Every deep test on sim; what comes of it is recorded."""
    command = [sys.executable, "-m", "pytest", *rests_on(), "-m", MARKER, "--deep", "--device=sim"]
    command += ["-n", str(processes), "--dist=worksteal", "--timeout=600"]
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
    parser = argparse.ArgumentParser(prog="python -m tests.deep", description=__doc__)
    parser.add_argument("--processes", type=int, default=2, metavar="N")
    parser.add_argument("--state", action="store_true", help="only say whether the record is new")
    options = parser.parse_args()
    if options.state:
        print_state()
        return 0
    return int(not run(options.processes))


if __name__ == "__main__":
    sys.exit(main())
