"""Lists in docs/find_your_waits.md what sim refuses of `torch.cuda`, and why, and what it waits for
otherwise than a GPU. `--check` writes nothing, and exits with 1 if a list is not current.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from generated_part import GeneratedPart, only_check, table, write_or_check

import debubble

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PAGE = ROOT / "docs" / "find_your_waits.md"


def main() -> int:
    from tests.accelerators.operators import DIFFERING

    checking = only_check(__doc__)
    names = defaultdict(list)
    with debubble.as_cuda():
        for name, why in refusals():
            names[why].append(f"`{name}`")
    refused = [[", ".join(sorted(of)), why] for why, of in sorted(names.items())]
    differing = [[f"`{name}`", why] for name, why in DIFFERING.items()]
    parts = [
        GeneratedPart(PAGE, "refused", table(["refused", "because"], refused)),
        GeneratedPart(PAGE, "differing", table(["operator", "because"], differing)),
    ]
    return write_or_check(parts, checking)


def refusals() -> Iterator[tuple[str, str]]:
    """Yields the full name of each refusing function of `torch.cuda`, and its reason."""
    for owner in (torch.cuda, torch.cuda.CUDAGraph, torch.cuda.cudart()):
        for name in dir(owner):
            held = closure(getattr(owner, name, None))
            if {"name", "why"} <= closure(held.get("value")).keys():
                held = closure(held["value"])
            if {"name", "why"} <= held.keys():
                yield held["name"], held["why"]


def closure(function: Any) -> dict[str, Any]:
    """Returns the variables of enclosing functions that a Python function uses, by name; {} if
    there are none."""
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


if __name__ == "__main__":
    sys.exit(main())
