"""`python -m tests.sim.conformance`: runs every operator of PyTorch's database, and reports the
results."""

from __future__ import annotations

import argparse
import json
import os
import sys

from .checks import CHECKS
from .database import MOST, operators
from .running import counted, run
from .table import as_markdown, table_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.conformance", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="only these operators, as `add` or `nn.functional`"
    )
    parser.add_argument("--slice", default="0/1", help="the operators number I of every N, as 3/20")
    parser.add_argument("--kinds", default=",".join(CHECKS), help="as forward,backward")
    parser.add_argument("--samples", type=int, help="so many of an operator and a type")
    parser.add_argument("--output", help="a file for all findings, one a line")
    options = parser.parse_args()
    which, of = map(int, options.slice.split("/"))
    if options.samples:
        MOST[0] = options.samples
    names = [n for n in operators() if not options.names or any(map(n.startswith, options.names))]
    findings = []
    with open(options.output or os.devnull, "w") as file:
        for finding in run(names[which::of], options.kinds.split(",")):
            findings.append(finding)
            file.write(json.dumps(finding) + "\n")
            file.flush()
    print(as_markdown(table_of(findings)))
    for kind, outcomes in counted(findings).items():
        print(kind, outcomes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
