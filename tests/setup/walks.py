"""How many of our files a newcomer has to open to follow one thing from its call to its end.

`python -m tests.setup.walks` prints these walks, file by file in the order in which they are met:

- `a + 1` on sim, inside a recording, once such an addition has been seen;
- the lengths of a Gated DeltaNet step, from the metadata builder to the upload of its tables, as
  `GDNStep` stages it in a ring; and these tables, from the rule that a layer hands them to, to the
  launch of the first kernel that reads them. Only files of `solutions` count. Between the two lie
  a layer's other parts, which are another subject;
- a kata from its source to its verdict, as `pytest katas/first_steps/test_upload_without_waiting.py
  --device sim` runs it: the stub, which fails and is explained, and with `--impl solutions` ours,
  which passes. Only the workshop's files count. The accelerator, the timeline and the drawing of
  lanes are other subjects;
- a load of blocks by the handler of `solutions.offload`, from their ids to the launch that copies
  them, the first one that this handler is asked for. The accelerator's files don't count.

Then it prints how many lines each system's lessons change, how much lies on top of its folder, and
which katas have code that no system runs.

A file counts once one of its functions is called, under `sys.setprofile`. Whatever is imported has
been imported before.
"""

from __future__ import annotations

import contextlib
import io
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from debubble.exercises.kata_files.catalogue import find_catalogue
from debubble.exercises.kata_files.lessons import lessons

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parents[2]
OURS = tuple(str(ROOT / folder) for folder in ("debubble", "solutions", "debubble_pytest.py"))
SOLUTIONS = (str(ROOT / "solutions"),)
WORKSHOP = tuple(str(ROOT / folder) for folder in ("debubble/exercises", "debubble_pytest.py"))
KATA = "katas/first_steps/test_upload_without_waiting.py"


class Walk:
    """A context that counts the calls of functions in our files, by file, in the order in which the
    files are first called."""

    def __init__(self, files: tuple[str, ...] = OURS, until: str | None = None) -> None:
        """Counts files whose paths begin with one of `files`, up to the call of the function named
        `until`."""
        self.files, self.until = files, until
        self.calls: dict[str, int] = {}

    def __enter__(self) -> Walk:
        sys.setprofile(self._look)
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and frame.f_code.co_name == self.until:
            sys.setprofile(None)
            return
        if event == "call" and name.startswith(self.files):
            name = str(Path(name).relative_to(ROOT))
            self.calls[name] = self.calls.get(name, 0) + 1

    def __str__(self) -> str:
        lines = [f"{len(self.calls)} files, {sum(self.calls.values())} calls"]
        return "\n".join([*lines, *(f"{calls:6} {name}" for name, calls in self.calls.items())])


def addition() -> Walk:
    """Returns a Walk of the files that `a + 1` runs through on sim, inside a recording."""
    import torch

    import debubble

    sim = debubble.accelerator("sim")
    a = torch.zeros(4, device=sim.device)
    a + 1
    with debubble.record(sim), Walk() as walk:
        a + 1
    return walk


def gdn() -> Walk:
    """Returns a Walk of the files that the lengths of two prompts run through, from the metadata
    builder to the upload that the kernels read."""
    import debubble
    from solutions import gdn

    step = gdn.GDNStep(gdn.GDNConfig.small(), debubble.accelerator("sim").device)
    batch = step.schedule([70, 9])
    step.builder.build(batch.common)
    with Walk(SOLUTIONS) as walk:
        step.builder.build(batch.common)
    return walk


def gdn_launch() -> Walk:
    """Returns a Walk of the files that the tables of two prompts run through, from a layer's rule
    to the launch of the first kernel that reads them."""
    import debubble
    from solutions import gdn

    config = replace(gdn.GDNConfig.small(), num_layers=1)
    step = gdn.GDNStep(config, debubble.accelerator("sim").device)
    batch = step.schedule([70, 9])
    step.run(batch)
    layer, walk = step.model.layers[0], Walk(SOLUTIONS, until="launch")
    rule = layer.chunk_gated_delta_rule

    def walked(*arguments: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
        assert named["chunk_indices"] is not None and named["chunk_offsets"] is not None
        with walk:
            return rule(*arguments, **named)

    layer.chunk_gated_delta_rule = walked
    step.run(batch)
    return walk


def kata(whose: Literal["learner", "solutions"]) -> Walk:
    """Returns a Walk of the files that pytest runs through on a kata with the learner's file or our
    solution, in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_kata, whose).result()


def _kata(whose: str) -> Walk:
    import pytest

    command = [str(ROOT / KATA), "--device=sim", f"--impl={whose}", f"--rootdir={ROOT}"]
    command += ["-pno:cacheprovider", "-pno:nbval", "-pno:xdist"]
    walk = Walk(WORKSHOP)
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(command)
        with walk:
            pytest.main(command)
    return walk


def swap() -> Walk:
    """Returns a Walk of the files that a load of 20 separate blocks runs through on sim, in each of
    two tensors: 40 pieces of 8 KiB."""
    import torch

    import debubble
    from solutions.offload import (
        KVGroup,
        KVTensors,
        SingleDirectionOffloadingHandler,
        pinned_blocks,
    )

    sim = debubble.accelerator("sim")
    pairs = [
        KVTensors(
            torch.zeros((64, 8192), dtype=torch.int8, device=sim.device), pinned_blocks(64, 8192)
        )
        for _ in range(2)
    ]
    handler = SingleDirectionOffloadingHandler([KVGroup(pairs)], gpu_to_cpu=False)
    with Walk(SOLUTIONS) as walk:
        handler.transfer_async("a prefix", [range(1, 60, 3)], [range(2, 61, 3)])
    return walk


def story(system: str) -> str:
    """Returns the changed lines of a system's lessons, and the files and lines on top of its
    folder, in one line."""
    changed = ", ".join(f"{found.name} {found.changed_lines}" for found in lessons(ROOT, system))
    on_top = [*(ROOT / "solutions" / system).glob("*.py")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in on_top)
    return f"{system}: {len(on_top)} files of {lines} lines on top; changed lines: {changed}"


def own_code() -> list[str]:
    """Returns the names of the katas whose solution is code that no system runs."""
    return [
        f"{kata.system}/{kata.name}"
        for kata in find_catalogue(ROOT).katas
        if any(".katas." in target.module for target in kata.solution)
    ]


def main() -> None:
    print(f"a + 1 on sim: {addition()}\n")
    print(f"Gated DeltaNet, from lengths to tables: {gdn()}\n")
    print(f"Gated DeltaNet, from tables to a launch: {gdn_launch()}\n")
    print(f"{KATA} on the stub: {kata('learner')}\n")
    print(f"{KATA} on our solution: {kata('solutions')}\n")
    print(f"block ids to a launch: {swap()}\n")
    for system in sorted({kata.system for kata in find_catalogue(ROOT).katas}):
        print(story(system))
    print(f"katas with code of their own: {', '.join(own_code())}")


if __name__ == "__main__":
    main()
