"""`python -m tests.outside`: fetches what `manifest.toml` names, runs it, and prints a table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .programs import fetch, programs, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outside", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs of the manifest (all)")
    parser.add_argument("--mirror", type=Path, help="a folder of clones, instead of GitHub")
    parser.add_argument("--fetch", action="store_true", help="fetch alone: pytest runs them later")
    options = parser.parse_args()
    known = {program.name: program for program in programs()}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no program is called {unknown[0]!r}; there are {', '.join(known)}")
    failed = False
    for name in options.names or known:
        fetch(known[name], options.mirror)
        if options.fetch:
            continue
        if missing := known[name].missing:
            print(f"{name:<32} not run: pip install {' '.join(missing)}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            ran = run(known[name], Path(folder) / "findings.json")
        rows = f"{len(ran.findings)} lines wait" if ran.findings else ran.printed[-2000:]
        print(f"{name:<32} exit code {ran.exit_code}, {ran.seconds} s, {rows}", flush=True)
        failed |= ran.exit_code != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
