"""`python -m tests.mutants [SYSTEM ...]`: tries a sample of each system's mutants, and prints which
pass."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .making import sources
from .verdicts import NAMES, ONE_IN, judges_of, outcome

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=", ".join(NAMES))
    parser.add_argument("--one-in", type=int, default=ONE_IN, metavar="N", help="1 tries all")
    options = parser.parse_args()
    wrong = 0
    for name in options.systems or NAMES:
        files, tests = sources(ROOT, name), judges_of(name, ROOT)
        found = outcome(ROOT, files, tests, options.one_in)
        passing = sum(not it.failed for it in found.verdicts)
        print(f"{name}: {passing} of {len(found.verdicts)} mutants pass")
        for text in found.unexplained:
            print(f"  without a reason: {text}")
        for text in found.stale:
            print(f"  has a reason, and there is none such that passes: {text}")
        wrong += len(found.unexplained) + len(found.stale)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
