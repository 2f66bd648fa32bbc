"""`python -m tests.wrong_arguments`: writes the list of accepted arguments again, for a review."""

from __future__ import annotations

import json
import os
import warnings
from collections import defaultdict
from unittest.mock import patch

os.environ.setdefault("DEBUBBLE_DEVICE", "sim")

import debubble

from .accepted import BY_OTHERS, LIST, UNCHECKED
from .all_calls import all_calls
from .search import outcomes_of


@patch("debubble.sim.kernels.launches.guarded", lambda call, tensors, name: set())
def main() -> None:
    warnings.simplefilter("ignore")
    accelerator = debubble.accelerator()
    found: dict[str, list[str]] = defaultdict(list)
    cases = 0
    for name, call in all_calls(accelerator).items():
        if name in UNCHECKED:
            continue
        for outcome in outcomes_of(call, accelerator):
            cases += 1
            if outcome.problem and outcome.id not in BY_OTHERS:
                print(f"{outcome.id}: {outcome.problem}: {outcome.sentence}")
            elif outcome.accepted:
                found[outcome.kind].append(f"{outcome.call}({outcome.parameter})")
    LIST.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
    print(f"{cases} cases, {sum(map(len, found.values()))} of them accepted")


main()
