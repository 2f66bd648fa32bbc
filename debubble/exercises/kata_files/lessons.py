"""The lessons of the workbook: pairs of files whose difference is what a system teaches.

Each `solutions/<system>/lesson.toml` names its pairs, relative to its folder:

    [[pair]]
    site = "kv_sharing"     # if a system has several
    before = "sites/before/kv_sharing.py"
    after = "sites/kv_sharing.py"
    idea = "The last index stays on the device instead of coming to the host as a number."
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from .catalogue import way_out
from .tables import ExerciseError, Format, read_tables, texts

FILE = "lesson.toml"
FORMAT = Format(texts("before", "after", "idea"), texts("site"))
CONTEXT = 3
"""Lines shown around a change."""


@dataclass(frozen=True)
class Lesson:
    """A lesson: two files that run in the same place of a system, and the idea that their
    difference shows."""

    system: str
    site: str
    """The name of the place in the system, empty if the system has only one lesson."""
    idea: str
    before: Path
    after: Path
    root: Path

    @property
    def name(self) -> str:
        return f"{self.system} {self.site}".strip()

    def diff(self) -> list[str]:
        """Returns the lines of a unified diff, with both files' paths in its head."""
        before, after = (self._lines(path) for path in (self.before, self.after))
        heads = (self._shown(self.before), self._shown(self.after))
        return list(difflib.unified_diff(before, after, *heads, lineterm="", n=CONTEXT))

    @property
    def changed_lines(self) -> int:
        """The number of lines that are added or removed."""
        return sum(line.startswith(("-", "+")) for line in self.diff()[2:])

    def _lines(self, path: Path) -> list[str]:
        try:
            return path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            sentence = f"{self._shown(path)} is not there: the lesson {self.name!r}"
            raise ExerciseError(f"{sentence} in {self.system}/{FILE} names it") from None

    def _shown(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()


def lessons(root: Path, system: str = "*") -> list[Lesson]:
    """Returns the lessons of one system, or by default those of all systems, one system after
    another. Raises ExerciseError for a lesson.toml with a mistake."""
    files = sorted((root / "solutions").glob(f"{system}/{FILE}"))
    return [lesson for file in files for lesson in _lessons_in(file, root)]


def find_lessons(root: Path, system: str, site: str | None = None) -> list[Lesson]:
    """Returns the lessons of a system, or those of one site. Raises ExerciseError for an unknown
    system or site, with the likely name or the known ones."""
    everything = lessons(root)
    found = [lesson for lesson in everything if lesson.system == system]
    if not found:
        known = [*dict.fromkeys(lesson.system for lesson in everything)]
        hint = way_out(system, known)
        raise ExerciseError(f"there is no system {system!r} with a lesson: {hint}")
    if site is None:
        return found
    of_site = [lesson for lesson in found if lesson.site == site]
    if not of_site:
        sites = [lesson.site for lesson in found if lesson.site]
        hint = way_out(site, sites) if sites else f"`debubble lesson {system}` shows the one it has"
        raise ExerciseError(f"there is no site of {system} {site!r} with a lesson: {hint}")
    return of_site


def _lessons_in(file: Path, root: Path) -> list[Lesson]:
    folder, shown = file.parent, file.relative_to(root).as_posix()
    pairs = read_tables(root, shown, {"pair": FORMAT})["pair"]
    if not pairs:
        raise ExerciseError(f"{shown} has no [[pair]], the two files whose difference is a lesson")
    return [
        Lesson(
            system=folder.name,
            site=pair.get("site", ""),
            idea=pair["idea"],
            before=folder / pair["before"],
            after=folder / pair["after"],
            root=root,
        )
        for pair in pairs
    ]
