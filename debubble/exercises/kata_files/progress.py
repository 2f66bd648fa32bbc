"""A learner's `progress.jsonl` in their workspace, which `debubble.progress` reads and writes.

A program that shows a learner's progress reads this file, or calls `debubble progress --json`:
neither runs the learner's code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from debubble.progress import ProgressError, ProgressEvent, ProgressFile, Standing

from .catalogue import Kata
from .tables import ExerciseError
from .workspace import Workspace, cannot_write


class Progress:
    """The events in a learner's `progress.jsonl`. Each method raises ExerciseError, and changes
    nothing, if the file can't be read or written."""

    def __init__(self, workspace: Workspace) -> None:
        root, self.path = workspace.root, workspace.progress_file
        shown = self.path.relative_to(root) if self.path.is_relative_to(root) else self.path
        self.file = ProgressFile(self.path, str(shown))

    def events(self) -> list[ProgressEvent]:
        """Returns the events, oldest first."""
        try:
            return self.file.events()
        except ProgressError as error:
            raise ExerciseError(str(error)) from None

    def standings(self) -> dict[str, Standing]:
        """Returns the learner's standing with each kata, by the kata's name; a kata without events
        is left out."""
        try:
            return self.file.standings()
        except ProgressError as error:
            raise ExerciseError(str(error)) from None

    def add(self, kind: str, kata: Kata | None = None, **about: object) -> None:
        """Appends one event."""
        self.add_all([(kind, kata, about)])

    def add_all(self, events: Iterable[tuple[str, Kata | None, Mapping[str, object]]]) -> None:
        """Appends events, each with its kind, its kata and its other fields. Without any event it
        creates the file."""
        try:
            self.file.add(
                {"kind": kind, **({"kata": kata.name} if kata else {}), **about}
                for kind, kata, about in events
            )
        except ProgressError as error:
            raise ExerciseError(str(error)) from None
        except OSError as error:
            raise cannot_write(self.file.shown_path, error) from None
