"""`python -m tests.snapshot`: takes the snapshot of the source, or PARTs of it.

The counts are sim's: on a machine with a GPU, set DEBUBBLE_DEVICE=sim.
"""

from __future__ import annotations

import argparse
import time

from .take import PARTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.snapshot", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    wanted = parser.parse_args().parts or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    for name in wanted:
        started = time.perf_counter()
        kept = PARTS[name].write()
        number = sum(map(len, kept.values()))
        print(f"{PARTS[name].path.name}: {number} lines in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
