"""The catalogue of katas, as `katas/katas.toml` lists them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..common.names import EVERY, TESTS
from .tables import ExerciseError, Format, Table, read_tables, texts

FILE = "katas/katas.toml"
LEVELS = ("easy", "medium", "hard")
FORMAT = Format(
    required={
        **texts("system", "name", "chapter", "title", "teaches", "task", "hint"),
        **dict.fromkeys(("solution", "before"), (str, list)),
        "stub_fails": (list,),
    },
    optional={
        **texts("difficulty", "needs", "differs", "try_this"),
        "minutes": (int,),
        "time_limit": (float,),
        "more_hints": (list,),
        "without": (list,),
        "optional": (bool,),
    },
)
RETIRED = Format(texts("system", "name", "became"))


class UnknownKata(ExerciseError):
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
            raise ExerciseError(f"{text!r} names nothing: write it as solutions.system.module:name")
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
    teaches: str
    """The text in the chapter's table of katas: what a learner learns."""
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
    optional: bool = False
    """True if the katas after it don't need it: it does not come up by itself."""
    without: tuple[str, ...] = ()
    """The common checks that the kata's tests leave out, each as `name: reason`."""

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
    def left_out(self) -> dict[str, str]:
        """The reason for each common check that the kata's tests leave out, by the check's name."""
        pairs = [text.partition(":") for text in self.without]
        reasons = {name.strip(): reason.strip() for name, _, reason in pairs}
        return {name: reasons[EVERY] for name in TESTS} if EVERY in reasons else reasons

    @property
    def effort(self) -> str:
        """How hard and how long the kata is, such as `easy, 10 minutes`, or the part that is
        known."""
        optional = "optional" if self.optional else ""
        minutes = f"{self.minutes} minutes" if self.minutes else ""
        return ", ".join(part for part in (optional, self.difficulty, minutes) if part)

    @property
    def label(self) -> str:
        return f"{self.system}/{self.name}"

    @property
    def exported_names(self) -> tuple[str, ...]:
        return tuple(target.name for target in self.solution)

    def relative(self, path: Path) -> str:
        """Returns the path as a learner would type it in the workbook's folder."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)


@dataclass(frozen=True, slots=True)
class RetiredKata:
    """A kata that was in the workbook, and the kata that it has become."""

    system: str
    name: str
    became: str


class Catalogue:
    """All katas of the workbook that lies in `root`, in the order in which they are taught."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / FILE

    @cached_property
    def katas(self) -> tuple[Kata, ...]:
        entries = self._tables["kata"]
        katas = tuple(self._kata(entry) for entry in entries)
        names = [kata.name for kata in katas]
        for name in names:
            if names.count(name) > 1:
                raise ExerciseError(f"two katas are called {name!r} in {self.file}: rename one")
        return katas

    @cached_property
    def retired(self) -> dict[str, RetiredKata]:
        """The katas that are no longer in the workbook, by name."""
        return {entry["name"]: RetiredKata(**entry) for entry in self._tables["retired"]}

    @cached_property
    def _tables(self) -> dict[str, list[Table]]:
        return read_tables(self.root, FILE, {"kata": FORMAT, "retired": RETIRED})

    def kata(self, name: str) -> Kata:
        """Returns the kata called `name`, which may also be `first_steps/name` or its file's path.
        Raises UnknownKata if there is none."""
        wanted = Path(name).stem.removeprefix("test_")
        for kata in self.katas:
            if kata.name == wanted:
                return kata
        if wanted in self.retired:
            raise UnknownKata(f"{wanted} {has_become(self.retired[wanted])}")
        known = [kata.name for kata in self.katas]
        raise UnknownKata(f"there is no kata {name!r}: {way_out(wanted, known)}")

    def of_system(self, system: str) -> list[Kata]:
        return [kata for kata in self.katas if kata.system == system]

    def of_test_file(self, path: Path) -> Kata | None:
        return self._of_test_files.get(path)

    @cached_property
    def _of_test_files(self) -> dict[Path, Kata]:
        return {kata.test_path: kata for kata in self.katas}

    def _kata(self, entry: dict[str, Any]) -> Kata:
        solution, before = _targets(entry["solution"]), _targets(entry["before"])
        if [target.name for target in solution] != [target.name for target in before]:
            raise ExerciseError(
                f"kata {entry['name']}: solution and before must name the same functions in the "
                "same order"
            )
        level = entry.get("difficulty", "")
        if level not in ("", *LEVELS):
            raise ExerciseError(
                f"kata {entry['name']}: difficulty is {level!r}: choose one of {', '.join(LEVELS)}"
            )
        for text in entry.get("without", []):
            name, _, reason = text.partition(":")
            if name.strip() not in (EVERY, *TESTS) or not reason.strip():
                raise ExerciseError(
                    f"kata {entry['name']}: without has {text!r}: write `name: reason`, with one "
                    f"of {', '.join((EVERY, *TESTS))}"
                )
        values = {key: _stripped(value) for key, value in entry.items()}
        values |= {"solution": solution, "before": before}
        return Kata(self.root, **values)


def find_catalogue(start: Path | None = None) -> Catalogue:
    """Returns the catalogue of the workbook around `start` (the current folder by default), or else
    of this checkout.

    Raises ExerciseError when there is none.
    """
    start = (start or Path.cwd()).resolve()
    checkout = Path(__file__).resolve().parents[3]
    for folder in (start, *start.parents, checkout):
        if (folder / FILE).is_file():
            return Catalogue(folder)
    raise ExerciseError(
        f"no katas/katas.toml at or above {start}: run this in the workbook's folder"
    )


def has_become(kata: RetiredKata) -> str:
    """Returns the end of a sentence that says what became of a kata."""
    return f"is no longer in the workbook: its exercise is `{kata.became}` now"


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


def _stripped(value: Any) -> Any:
    """Returns a text without the blank lines around it, and a list of texts as a tuple of such."""
    if isinstance(value, list):
        return tuple(text.strip() for text in value)
    return value.strip() if isinstance(value, str) else value
