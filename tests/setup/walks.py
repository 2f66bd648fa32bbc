"""How many of our files a newcomer has to open to follow one thing from its call to its end.

`python -m tests.setup.walks` prints both walks, file by file in the order in which they are met:

- `a + 1` on sim, inside a recording, once such an addition has been seen;
- a kata from its source to its verdict: the body of a passing test of the kata that is given to the
  learner, with all that the workbook's pytest plugin does for it.

A file counts once one of its functions is called, under `sys.setprofile`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
OURS = tuple(str(ROOT / folder) for folder in ("debubble", "solutions", "debubble_pytest.py"))


class Walk:
    """A context: the files of ours whose functions run in it, and how many calls there were."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def __enter__(self) -> Walk:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(OURS):
            name = str(Path(name).relative_to(ROOT))
            self.calls[name] = self.calls.get(name, 0) + 1

    def __str__(self) -> str:
        lines = [f"{len(self.calls)} files, {sum(self.calls.values())} calls"]
        return "\n".join([*lines, *(f"{calls:6} {name}" for name, calls in self.calls.items())])


def addition() -> Walk:
    """Of `a + 1` on sim."""
    import torch

    import debubble

    sim = debubble.accelerator("sim")
    a = torch.zeros(4, device=sim.device)
    a + 1
    with debubble.record(sim), Walk() as walk:
        a + 1
    return walk
