"""The state of a learner, and the kata that a word on the command line means."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path

import typer

from debubble.exercises.kata_files.catalogue import (
    Catalogue,
    Kata,
    RetiredKata,
    UnknownKata,
    find_catalogue,
    has_become,
)
from debubble.exercises.kata_files.progress import Progress
from debubble.exercises.kata_files.tables import ExerciseError
from debubble.exercises.kata_files.workspace import Workspace
from debubble.progress import ProgressEvent, Standing

CHOOSES = ("begun", "hint", "solution", "reset")
"""The kinds of events by which a learner turns to a kata."""
NEAREST = 3
"""The number of names that are suggested for an unknown one."""


class Learner:
    """The learner of the workbook around the current folder: their workspace, progress and
    katas."""

    def __init__(self, catalogue: Catalogue | None = None) -> None:
        self.catalogue = catalogue or find_catalogue()
        self.workspace = Workspace(self.catalogue.root)
        self.progress = Progress(self.workspace)

    @property
    def katas(self) -> Sequence[Kata]:
        return self.catalogue.katas

    @cached_property
    def events(self) -> list[ProgressEvent]:
        """The events in the learner's `progress.jsonl`. Prints a sentence, and is empty, if they
        can't be read."""
        try:
            return self.progress.events()
        except ExerciseError as error:
            remark(str(error))
            return []

    @cached_property
    def standings(self) -> dict[str, Standing]:
        found = {kata.name: Standing() for kata in self.katas}
        for event in self.events:
            name = event.get("kata")
            if isinstance(name, str) and name in found:
                found[name] = found[name].after(event)
        return found

    @property
    def retired(self) -> dict[RetiredKata, Standing]:
        """The katas that are no longer in the workbook and that the learner has begun, with their
        standing."""
        try:
            standings = self.progress.standings()
        except ExerciseError:
            standings = {}
        return {
            kata: standings.get(name, Standing())
            for name, kata in self.catalogue.retired.items()
            if name in standings or self.workspace.copy_of(kata).exists()
        }

    @property
    def solved(self) -> int:
        return sum(standing.solved for standing in self.standings.values())

    def state(self, kata: Kata) -> str:
        """Returns the kata's state: "solved", "begun" or "new"."""
        standing = self.standings[kata.name]
        begun = standing.state == "new" and self.workspace.has_copy(kata)
        return "begun" if begun else standing.state

    @property
    def current(self) -> Kata | None:
        """The first unsolved kata in teaching order from the kata of the last event on, that kata
        included; after the last kata come the earlier ones. An optional kata only counts if it is
        the kata of the last event, or if it is all that is left. None if all are solved."""
        names = [kata.name for kata in self.katas]
        last = next((e["kata"] for e in reversed(self.events) if e.get("kata") in names), None)
        at = names.index(str(last)) if last is not None else 0
        begun = [] if last is None else [self.katas[at]]
        following = [*self.katas[at:], *self.katas[:at]]
        needed = [kata for kata in following if not kata.optional]
        return self.unsolved([*begun, *needed, *following])

    @property
    def edited_last(self) -> Kata | None:
        """The kata whose copy was saved last, if that was after the learner began or reset another
        kata, took a hint, or saw a solution; else None."""
        saved = {kata: _saved_at(self.workspace.copy_of(kata)) for kata in self.katas}
        last = max(self.katas, key=lambda kata: saved[kata], default=None)
        others = (e for e in self.events if e.get("kind") in CHOOSES and "kata" in e)
        chosen = max((_time_of(event) for event in others), default=0.0)
        return last if last is not None and saved[last] > chosen else None

    def unsolved(self, katas: Sequence[Kata]) -> Kata | None:
        return next((kata for kata in katas if not self.standings[kata.name].solved), None)

    def remember(self, kind: str, kata: Kata, **about: object) -> bool:
        """Records an event about `kata` in the learner's `progress.jsonl`. Prints a sentence and
        returns False if that fails."""
        try:
            self.progress.add(kind, kata, **about)
        except ExerciseError as error:
            remark(f"Not recorded: {error}")
            return False
        return True

    def choose(self, word: str | None) -> Kata:
        """Returns the kata that `word` means: a name or its beginning, a path, or a chapter, which
        means its first unsolved kata. Without a word returns the current one. Raises ExerciseError
        if `word` means no kata, or may mean several."""
        if not word:
            if not self.katas:
                raise ExerciseError(f"{self.catalogue.file} lists no kata")
            return self.current or self.katas[-1]
        of_chapter = self.of_chapter(word)
        if of_chapter:
            return self.unsolved(of_chapter) or of_chapter[-1]
        name = Path(word).stem.removeprefix("test_")
        if name in self.catalogue.retired:
            raise UnknownKata(f"{name} {has_become(self.catalogue.retired[name])}")
        begun = [kata for kata in self.katas if name and kata.name.startswith(name)]
        exact = [kata for kata in begun if kata.name == name]
        if len(exact or begun) == 1:
            return (exact or begun)[0]
        if begun:
            raise UnknownKata(f"{word!r} may be {_either(begun)}: write more of it")
        names = [kata.name for kata in self.katas]
        near = difflib.get_close_matches(name, names, NEAREST, cutoff=0)
        choices = [kata for found in near for kata in self.katas if kata.name == found]
        raise UnknownKata(f"there is no kata {word!r}: did you mean {_either(choices)}?")

    def of_chapter(self, word: str) -> list[Kata]:
        """Returns the katas of a chapter, named by its number, its system, or the path of its
        notebook."""
        path = Path(word)
        number = path.stem[:2] if path.suffix == ".ipynb" else word.rjust(2, "0")
        system = path.name
        return [kata for kata in self.katas if kata.chapter == number or kata.system == system]

    def chapter_file(self, kata: Kata) -> Path | None:
        """Returns the notebook of the kata's chapter: the learner's copy if there is one."""
        pattern = f"{kata.chapter}_*.ipynb"
        folders = (self.workspace.chapters, self.catalogue.root / "chapters")
        return next((path for folder in folders for path in sorted(folder.glob(pattern))), None)

    def begin(self, kata: Kata) -> Path:
        """Makes the learner's copy of a kata if there is none, and returns the file to edit: the
        copy, or the stub if no copy can be made."""
        try:
            if self.workspace.begin(kata):
                self.remember("begun", kata)
        except ExerciseError as error:
            remark(str(error))
        return self.workspace.file_of(kata)


def _saved_at(path: Path) -> float:
    """Returns when the file was saved, in seconds since 1970, or 0.0 if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _time_of(event: ProgressEvent) -> float:
    """Returns when the event was, in seconds since 1970, or 0.0 if it does not say so."""
    try:
        return datetime.fromisoformat(str(event.get("time"))).timestamp()
    except ValueError:
        return 0.0


def remark(sentence: str) -> None:
    typer.secho(sentence, fg="yellow", err=True)


def _either(katas: Sequence[Kata]) -> str:
    names = [repr(kata.name) for kata in katas]
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def complete(incomplete: str) -> list[str]:
    """Returns the names of katas that begin with `incomplete`, for the completion of the shell."""
    try:
        names = [kata.name for kata in find_catalogue().katas]
    except ExerciseError:
        return []
    return [name for name in names if name.startswith(incomplete)]
