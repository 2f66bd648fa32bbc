"""Compares what an installed debubble finds with other versions of PyTorch and Python, as a table.

    python scripts/compare_versions.py PYTHON [PYTHON ...]

Each PYTHON is an interpreter with debubble. It runs from an empty folder the examples of
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


def row(python: str) -> tuple[str, bool]:
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
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    pythons = parser.parse_args().pythons
    print("| torch | Python | the guide's examples as printed there | scripts that say cuda |")
    print("|---|---|---|---|")
    rows = [row(python) for python in pythons]
    print(*(said for said, _ in rows), sep="\n")
    raise SystemExit(not all(right for _, right in rows))


main()
