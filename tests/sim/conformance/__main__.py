"""`python -m tests.sim.conformance`: every operator of PyTorch's database, and what came of it."""

from __future__ import annotations

import argparse
import json
import sys

from .database import operators
from .running import counted, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.conformance", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="only these operators, as `add` or `nn.functional`"
    )
    parser.add_argument("--slice", default="0/1", help="the operators number I of every N, as 3/20")
    parser.add_argument("--output", help="a file for all findings, one a line")
    options = parser.parse_args()
    which, of = map(int, options.slice.split("/"))
    names = [n for n in operators() if not options.names or any(map(n.startswith, options.names))]
    findings = []
    for finding in run(names[which::of]):
        findings.append(finding)
        if finding.outcome != "right":
            print(*finding, flush=True)
    for kind, outcomes in counted(findings).items():
        print(kind, outcomes)
    if options.output:
        with open(options.output, "w") as file:
            file.writelines(json.dumps(finding) + "\n" for finding in findings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
