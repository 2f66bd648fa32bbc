"""Runs controls, and writes what happened to docs/guards.md.

python -m tests.controls                 all, and writes the page
python -m tests.controls engine offload  those of two systems, and prints their rows
"""

from __future__ import annotations

import json
import sys

from .page import PAGE, page_of, row_of
from .running import run_all
from .table import all_controls


def main(arguments: list[str]) -> int:
    controls = [it for it in all_controls() if not arguments or it.system in arguments]
    results = []
    for control, seen in zip(controls, run_all(controls), strict=True):
        results.append((control, seen))
        row = row_of(control, seen)
        print(json.dumps([control.name, seen.failed, seen.error, row]), flush=True)
    if not arguments:
        PAGE.write_text(page_of(results), encoding="utf-8")
    return 0 if all(seen.failed for _, seen in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
