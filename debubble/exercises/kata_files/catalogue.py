"""The catalogue of katas, as `katas/katas.toml` lists them."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

TEXT_KEYS = ("system", "name", "chapter", "title", "task", "hint")
REQUIRED_KEYS = (*TEXT_KEYS, "solution", "before", "stub_fails")
OPTIONAL_KEYS = (
    "minutes", "difficulty", "needs", "more_hints", "differs", "try_this", "time_limit"
)  # fmt: skip


class WorkshopError(Exception):
    """An error that the reader can fix; its text is one sentence that says how."""


class UnknownKata(WorkshopError):
    """The error for a name that is no kata's in the catalogue."""


@dataclass(frozen=True, slots=True)
class Target:
    """One function or class of `solutions`, written `solutions.first_steps.upload:upload`."""

    module: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Target:
        module, colon, name = text.partition(":")
        if not (colon and module.startswith("solutions.") and name.isidentifier()):
            raise WorkshopError(f"{text!r} names nothing: write it as solutions.system.module:name")
        return cls(module, name)

    def file(self, root: Path) -> Path:
        path = root.joinpath(*self.module.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


@dataclass(frozen=True)
class Kata:
    """One exercise. `stub_fails` are the tests that its untouched stub is meant to fail."""

    root: Path
    system: str
    name: str
    chapter: str
    title: str
    task: str
    hint: str
    solution: tuple[Target, ...]
    before: tuple[Target, ...]
    stub_fails: tuple[str, ...]
    minutes: int | None = None
    """Minutes that the kata takes a learner who has read the chapter, by our estimate."""
    difficulty: str = ""
    """"easy", "medium" or "hard"."""
    needs: str = ""
    """The knowledge that the kata needs, without a full stop: completes "You need to know …"."""
    more_hints: tuple[str, ...] = ()
    """Further hints, each nearer to the answer than `hint`."""
    differs: str = ""
    """Differences of the solution from a first right answer, in up to three lines."""
    try_this: str = ""
    """A suggestion of what to try with the kata once it is solved."""
    time_limit: float | None = None
    """Seconds of CPU time a test may take, or None for the plugin's own limit."""

    @property
    def stub_path(self) -> Path:
        return self.root / "katas" / self.system / f"{self.name}.py"

    @property
    def test_path(self) -> Path:
        return self.root / "katas" / self.system / f"test_{self.name}.py"

    @property
    def attempts_folder(self) -> Path:
        return self.root / "tests" / "wrong_attempts" / self.system / self.name

    @property
    def variants_folder(self) -> Path:
        return self.root / "tests" / "correct_variants" / self.system / self.name

    @property
    def hints(self) -> tuple[str, ...]:
        return (self.hint, *self.more_hints)

    @property
    def label(self) -> str:
        return f"{self.system}/{self.name}"

    @property
    def exported_names(self) -> tuple[str, ...]:
        return tuple(target.name for target in self.solution)

    def relative(self, path: Path) -> str:
        """Returns the path as a learner would type it in the workbook's folder."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


class Catalogue:
    """All katas of the workbook that lies in `root`, in the order in which they are taught."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "katas" / "katas.toml"

    @cached_property
    def katas(self) -> tuple[Kata, ...]:
        try:
            entries = tomllib.loads(self.file.read_text(encoding="utf-8")).get("kata", [])
        except tomllib.TOMLDecodeError as error:
            raise WorkshopError(f"{self.file} is not valid TOML: {error}") from error
        katas = tuple(self._kata(entry) for entry in entries)
        names = [kata.name for kata in katas]
        for name in names:
            if names.count(name) > 1:
                raise WorkshopError(f"two katas are called {name!r} in {self.file}: rename one")
        return katas

    def kata(self, name: str) -> Kata:
        """Returns the kata called `name`, which may also be `first_steps/name` or its file's path.
        Raises UnknownKata if there is none."""
        wanted = Path(name).stem.removeprefix("test_")
        for kata in self.katas:
            if kata.name == wanted:
                return kata
        known = [kata.name for kata in self.katas]
        raise UnknownKata(f"there is no kata {name!r}: {way_out(wanted, known)}")

    def of_test_file(self, path: Path) -> Kata | None:
        return next((kata for kata in self.katas if kata.test_path == path), None)

    def _kata(self, entry: dict[str, Any]) -> Kata:
        label = entry.get("name", "without a name")
        missing = [key for key in REQUIRED_KEYS if key not in entry]
        if missing:
            raise WorkshopError(f"kata {label} in {self.file} lacks {', '.join(missing)}")
        unknown = sorted(set(entry) - {*REQUIRED_KEYS, *OPTIONAL_KEYS})
        if unknown:
            raise WorkshopError(f"kata {label} in {self.file} has unknown keys: {unknown}")
        solution, before = _targets(entry["solution"]), _targets(entry["before"])
        if [target.name for target in solution] != [target.name for target in before]:
            raise WorkshopError(
                f"kata {label}: solution and before must name the same functions in the same order"
            )
        text = {key: entry[key].strip() for key in TEXT_KEYS}
        return Kata(
            self.root,
            **text,
            solution=solution,
            before=before,
            stub_fails=tuple(entry["stub_fails"]),
            minutes=entry.get("minutes"),
            difficulty=entry.get("difficulty", ""),
            needs=entry.get("needs", "").strip(),
            more_hints=tuple(hint.strip() for hint in entry.get("more_hints", [])),
            differs=entry.get("differs", "").strip(),
            try_this=entry.get("try_this", "").strip(),
            time_limit=entry.get("time_limit"),
        )


def find_catalogue(start: Path | None = None) -> Catalogue:
    """Returns the catalogue of the workbook around `start` (the current folder by default), or else
    of this checkout.

    Raises WorkshopError when there is none.
    """
    start = (start or Path.cwd()).resolve()
    checkout = Path(__file__).resolve().parents[3]
    for folder in (start, *start.parents, checkout):
        if (folder / "katas" / "katas.toml").is_file():
            return Catalogue(folder)
    raise WorkshopError(
        f"no katas/katas.toml at or above {start}: run this in the workbook's folder"
    )


def way_out(name: str, known: Sequence[str]) -> str:
    """Returns the end of a sentence that says there is no `name`: the likely name, or all known
    names."""
    if not known:
        return "there is no other one either"
    begun = [there for there in known if name and there.startswith(name)]
    near = begun or difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}"


def _targets(value: str | list[str]) -> tuple[Target, ...]:
    return tuple(Target.parse(text) for text in ([value] if isinstance(value, str) else value))
