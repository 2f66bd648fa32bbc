"""Compares the counts of sim with other versions of PyTorch and Python, as a table.

    python scripts/compare_versions.py [--as-cuda] PYTHON [PYTHON ...]

Each PYTHON is an interpreter with torch, NumPy, rich and typer. Each of them records the ordinary
programs of tests/snapshot on sim, whose counts are compared with the snapshot's, and runs a fixed
list of operators, whose results are compared with the CPU's.

With --as-cuda each PYTHON runs its own installed debubble from an empty folder: the examples of
docs/find_your_waits.md, which must print what that page shows, and the scripts of
tests/as_cuda/scripts, which must wait where they say. Any difference is exit status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def what_it_counts() -> dict[str, object]:
    """Returns what sim does in the running interpreter: the versions of Python and torch, the
    counts of each ordinary program, and how many operators give the CPU's numbers."""
    import torch

    import debubble
    from tests.snapshot.programs import PROGRAMS

    accelerator = debubble.accelerator("sim")
    found = {}
    for name, program in ((n, p) for group in PROGRAMS.values() for n, p in group.items()):
        torch.manual_seed(0)
        run = program(accelerator, accelerator.device)
        run()
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            run()
        found[name] = timeline.counts()
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "counts": found,
        "operators": same_operators(),
    }


def same_operators() -> tuple[int, int]:
    """Returns how many unary operators give the CPU's numbers, and how many were tried."""
    import torch

    data = torch.linspace(0.1, 0.9, 12).view(3, 4)
    right = asked = 0
    for name in sorted(dir(torch.ops.aten)):
        func = getattr(getattr(torch.ops.aten, name), "default", None)
        if func is None or [str(a.type) for a in func._schema.arguments] != ["Tensor"]:
            continue
        try:
            expected = func(data.clone())
        except (RuntimeError, TypeError, NotImplementedError):
            continue
        if not isinstance(expected, torch.Tensor) or expected.layout != torch.strided:
            continue
        asked += 1
        try:
            got = func(data.clone().to("sim")).cpu()
            right += torch.allclose(got.double(), expected.double(), equal_nan=True)
        except (RuntimeError, TypeError, NotImplementedError):
            pass
    return right, asked


def row(python: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [python, "-W", "ignore", __file__, "--this"]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        last = run.stderr.strip().splitlines()[-1]
        return f"| {python} | | {last} | |"
    found = json.loads(run.stdout.splitlines()[-1])
    kept = json.loads((ROOT / "tests/snapshot/programs.json").read_text())
    expected = {name: counts for group in kept.values() for name, counts in group.items()}
    same = sum(found["counts"].get(name) == counts for name, counts in expected.items())
    right, asked = found["operators"]
    programs = f"{same} of {len(expected)}"
    return f"| {found['torch']} | {found['python']} | {programs} | {right} of {asked} |"


def row_as_cuda(python: str) -> tuple[str, bool]:
    """Returns the table's row for one interpreter, and True if all examples and scripts behave in
    it as documented."""
    sys.path.insert(0, str(ROOT))
    from tests.as_cuda.waits import expected

    page = (ROOT / "docs/find_your_waits.md").read_text()
    shown = re.findall(
        r"<!-- debubble syncs --as-cuda (\S+) -->\n```text\n(.*?)```", page, re.DOTALL
    )
    scripts = sorted((ROOT / "tests/as_cuda/scripts").glob("*.py"))
    wrong = []
    with tempfile.TemporaryDirectory() as folder:

        def run(*command: str) -> str:
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            environment |= {"COLUMNS": "100", "OMP_NUM_THREADS": "1"}
            whole = [python, "-W", "ignore", *command]
            done = subprocess.run(
                whole, env=environment, cwd=folder, capture_output=True, text=True
            )
            if done.returncode:
                print(f"{' '.join(whole)}:\n{done.stderr}", file=sys.stderr)
            return done.stdout

        for name, table in shown:
            example = ROOT / "docs/examples" / name
            printed = run("-m", "debubble", "syncs", "--as-cuda", str(example))
            lines = [line.rstrip() for line in printed.splitlines()]
            if table.rstrip() not in "\n".join(lines):
                wrong.append(name)
        for script in scripts:
            found = Path(folder) / "found.json"
            found.unlink(missing_ok=True)
            run("-m", "debubble", "syncs", "--as-cuda", "--json", str(found), str(script))
            waits: Counter = Counter()
            for finding in json.loads(found.read_text())["findings"] if found.exists() else ():
                waits[finding["line"], finding["what"]] += finding["count"]
            if waits != expected(script, modelled=True):
                wrong.append(script.name)
        versions = "import sys, torch; print(torch.__version__, '|', sys.version.split()[0])"
        version = run("-c", versions).strip()
    count = [
        sum(name not in wrong for name in names)
        for names in ([name for name, _ in shown], [script.name for script in scripts])
    ]
    said = f"| {version} | {count[0]} of {len(shown)} | {count[1]} of {len(scripts)} |"
    return said + (f" differ: {', '.join(wrong)} |" if wrong else ""), bool(version) and not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON")
    parser.add_argument("--this", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--as-cuda", action="store_true", help="what an installed debubble finds")
    options = parser.parse_args()
    if options.this:
        print(json.dumps(what_it_counts()))
        return
    if options.as_cuda:
        print("| torch | Python | the guide's examples as printed there | scripts that say cuda |")
        print("|---|---|---|---|")
        rows = [row_as_cuda(python) for python in options.pythons]
        print(*(said for said, _ in rows), sep="\n")
        raise SystemExit(not all(right for _, right in rows))
    print("| torch | Python | programs with the same counts | unary operators as on the CPU |")
    print("|---|---|---|---|")
    for python in options.pythons:
        print(row(python), flush=True)


if __name__ == "__main__":
    main()
