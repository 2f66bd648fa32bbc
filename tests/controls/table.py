"""Reads the controls, and makes the changed source of each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from debubble.exercises.kata_files.changed_solution import changed
from debubble.exercises.kata_files.stubs.source import SourceModule

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("controls.toml")


@dataclass(frozen=True)
class Control:
    """A change of one module that a test must notice."""

    name: str
    """The guard that is left out, as a claim: "the ring waits for its slot"."""
    file: str
    """The changed file, from the root of the checkout."""
    test: str
    """The id of the test that fails on the change."""
    diff: str
    """The change, in the format of the katas' wrong attempts."""
    kind: str = ""
    """The kind of guard that is left out, "" for another fault."""
    lessons: tuple[str, ...] = ()
    """The reports of other projects that the fault comes from: "vLLM #47291"."""

    @property
    def system(self) -> str:
        return self.file.split("/")[1]

    @property
    def left_out(self) -> str:
        """The first line of code that the change removes, or else the first that it adds."""
        lines = self.diff.splitlines()
        removed = [line[1:].strip() for line in lines if line.startswith("-")]
        return (removed or [line[1:].strip() for line in lines if line.startswith("+")])[0]

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    def text(self) -> str:
        """Returns the source of the changed module. Raises ExerciseError if the change no longer
        fits."""
        module = SourceModule(self.module, ROOT / self.file, ROOT)
        return changed(module, self.diff, f"{TABLE.name}, {self.name!r}")


def all_controls() -> list[Control]:
    """Returns the controls in the order of the table."""
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["control"]
    return [Control(**entry | {"lessons": tuple(entry.get("lessons", ()))}) for entry in entries]
