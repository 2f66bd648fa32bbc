"""The parts of the snapshot: how each is taken, stored and compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .claims import claims
from .collected import collected, renames, vanished
from .comparison import changes, complaint
from .counts import program_counts, step_counts
from .outputs import outputs
from .paths import FOLDER
from .signatures import signatures

Kept = Mapping[str, Mapping[str, Any]]
"""The stored entries of a part, {group: {name: value}}. The entry of a name is one line of the
file."""


@dataclass(frozen=True)
class Part:
    name: str
    take: Callable[[], Kept]
    advice: str
    """A sentence that says what to do if the part differs."""
    differences: Callable[[Kept, Kept], Iterator[str]] = changes
    """A function that yields a sentence for each difference between the old and the new entries."""

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.json"

    def read(self) -> Kept:
        return json.loads(self.path.read_text(encoding="utf-8"))

    def write(self) -> Kept:
        kept = self.take()
        self.path.write_text(as_text(kept), encoding="utf-8")
        return kept

    def problem(self) -> str:
        """Takes the part again, and returns its differences from the stored one, with the advice;
        "" if there are none."""
        now = json.loads(json.dumps(self.take()))
        sentences = list(self.differences(self.read(), now))
        return complaint(sentences, self.advice) if sentences else ""


def as_text(kept: Kept) -> str:
    groups = []
    for group, names in sorted(kept.items()):
        lines = [f"  {as_line(name)}: {as_line(value)}" for name, value in sorted(names.items())]
        groups.append(f" {as_line(group)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(groups) + "\n}\n"


def as_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


BEHAVIOUR = "Look for the change that did this: if it was meant, take this part again."

PARTS = {
    part.name: part
    for part in (
        Part(
            "signatures",
            signatures,
            "Hand the name on from its package's `__init__`, with the signature that it had.",
        ),
        Part(
            "claims",
            claims,
            "A kata's claims are in katas/katas.toml and in the docstrings of its wrong attempts: "
            "move them as they are.",
        ),
        Part(
            "tests",
            collected,
            "Say in tests/snapshot/renames.toml what a test that moved is called now; one that is "
            "gone no longer holds anybody to what it claimed.",
            lambda was, now: vanished(was, now, renames()),
        ),
        Part("programs", program_counts, BEHAVIOUR),
        Part("steps", step_counts, BEHAVIOUR),
        Part(
            "outputs",
            outputs,
            "A chapter shows what it showed: `git diff chapters` says what changed in that cell.",
        ),
    )
}
