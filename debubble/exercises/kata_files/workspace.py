"""The learner's workspace: `my/` in the workbook's folder, or the folder in DEBUBBLE_WORKSPACE.

my/katas/<system>/<kata>.py   their copy of a kata, tested in place of the stub in katas/
my/katas/.stubs/              the stub that each copy was made from
my/chapters/                  their copies of chapters
my/progress.jsonl             what they tried, saw and solved (`debubble.progress`)
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

from debubble.progress import NAME

from .catalogue import Catalogue, Kata, RetiredKata, has_become, way_out
from .stubs.files import StubFiles, StubState, write_whole
from .stubs.generate import generate
from .tables import ExerciseError

MOST_COMMITS = 50
VARIABLE = "DEBUBBLE_WORKSPACE"
"""The environment variable that names the workspace; a relative path starts in the workbook's
folder."""


class Workspace:
    def __init__(self, root: Path) -> None:
        """Takes the workbook's folder as `root`. Writes no file before there is something to
        save."""
        self.root = root
        self.folder = root / Path(os.environ.get(VARIABLE) or "my").expanduser()

    @property
    def katas(self) -> Path:
        return self.folder / "katas"

    @property
    def chapters(self) -> Path:
        return self.folder / "chapters"

    @property
    def progress_file(self) -> Path:
        return self.folder / NAME

    def copy_of(self, kata: Kata | RetiredKata) -> Path:
        return self.katas / kata.system / f"{kata.name}.py"

    def shown(self, path: Path) -> str:
        """Returns a path in the workspace as a learner would type it in the workbook's folder."""
        return str(path.relative_to(self.root) if path.is_relative_to(self.root) else path)

    def has_copy(self, kata: Kata) -> bool:
        return os.path.lexists(self.copy_of(kata))

    def file_of(self, kata: Kata) -> Path:
        """Returns the file that is tested and edited: the learner's copy if it exists, else the
        stub."""
        return self.copy_of(kata) if self.has_copy(kata) else kata.stub_path

    def begin(self, kata: Kata) -> bool:
        """Makes the learner's copy of a kata, with all edits of the stub, and returns True; returns
        False if there is a copy.

        Raises ExerciseError if a file can't be written or the stub can't be read.
        """
        if self.has_copy(kata):
            return False
        edited = StubFiles(Catalogue(self.root)).state(kata) is StubState.EDITED
        text = kata.stub_path.read_bytes() if edited else generate(kata).encode()
        path = self.copy_of(kata)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
            self.keep_origin(kata)
        except OSError as error:
            raise cannot_write(kata.relative(path), error) from None
        return True

    def keep_origin(self, kata: Kata) -> None:
        """Saves the kata's current stub as the stub that the learner's copy was made from. Raises
        OSError if it can't be written."""
        path = self._origin(kata)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, generate(kata).encode())

    def origin_of(self, kata: Kata) -> str | None:
        """Returns the stub that the copy was made from or last updated to: the saved one, or else
        the stub in git's history that is nearest to the copy. Returns None if there is neither.
        """
        try:
            return self._origin(kata).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            copy = self.copy_of(kata).read_text(encoding="utf-8").splitlines()
            likeness = lambda text: SequenceMatcher(None, text.splitlines(), copy).ratio()
            return max(_in_history(kata), key=likeness, default=None)

    def _origin(self, kata: Kata) -> Path:
        return self.katas / ".stubs" / kata.system / f"{kata.name}.py"

    def is_untouched(self, kata: Kata) -> bool:
        """True if the learner's file is the exercise as we wrote it."""
        if not self.has_copy(kata):
            files = StubFiles(Catalogue(self.root))
            return kata.stub_path.is_file() and not files.is_edited(kata)
        try:
            return self.copy_of(kata).read_bytes() == generate(kata).encode()
        except OSError:
            return False

    def remarks(self, catalogue: Catalogue) -> Iterator[str]:
        """Yields a sentence for each file in the workspace that is no kata's and so not tested, for
        tests that are gone or not ours, and for an edited stub that the learner's copy hides."""
        names = [kata.name for kata in catalogue.katas]
        owned = {self.copy_of(kata) for kata in catalogue.katas}
        for path in sorted(self.katas.glob("*/*.py")):
            if path not in owned:
                place = self.shown(path)
                retired = catalogue.retired.get(path.stem)
                if retired is None:
                    yield f"{place} is no kata's, and is not tested: {way_out(path.stem, names)}"
                elif not self.has_copy(catalogue.kata(retired.became)):
                    became = has_become(retired)
                    yield f"{place} stays, and is not tested: {retired.name} {became}"
        files = StubFiles(catalogue)
        for kata in catalogue.katas:
            if files.has_edited_tests(kata):
                tests = kata.relative(kata.test_path)
                gone = "is gone, and its kata is not tested"
                edited = "has been edited, its verdict is not ours"
                found = edited if kata.test_path.exists() else gone
                yield f"{tests} {found}: `git checkout {tests}`?"
            if self.has_copy(kata) and files.is_edited(kata):
                copy = self.copy_of(kata)
                if not _same(copy, kata.stub_path):
                    yield (
                        f"{kata.relative(copy)} is tested, and your other version in "
                        f"{kata.relative(kata.stub_path)} is not: keep one of them"
                    )


def cannot_write(path: str, error: OSError) -> ExerciseError:
    return ExerciseError(
        f"{path} can't be written ({error.strerror or error}): make room there, or name another "
        f"folder by {VARIABLE}"
    )


def _in_history(kata: Kata) -> Iterator[str]:
    """Yields the text of a kata's stub in each of the last commits that changed it; yields none
    outside a git clone, or if git is not installed."""
    git = ["git", "-C", str(kata.root)]
    stub = kata.stub_path.relative_to(kata.root)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        commits = _output([*git, "log", f"-{MOST_COMMITS}", "--format=%H", "--", str(stub)])
        for commit in commits.split():
            yield _output([*git, "show", f"{commit}:./{stub}"])


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout


def _same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False
