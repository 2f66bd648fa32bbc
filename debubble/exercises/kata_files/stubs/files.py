"""The stub files on disk, and whether each is untouched, edited by a learner, or out of date."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from enum import Enum
from itertools import chain, count
from pathlib import Path

from ..catalogue import Catalogue, Kata
from ..tables import ExerciseError
from .generate import generate
from .given import given_text, path_of_given
from .source import StubError


class StubState(Enum):
    CURRENT = "as generated"
    EDITED = "edited"
    STALE = "older than its solution"
    MISSING = "missing"


class StubFiles:
    """The stubs of a catalogue's katas, with the fingerprints of the stubs and tests as we wrote
    them, which are in `katas/stubs.json`.

    The fingerprints distinguish a learner's work, which is never overwritten, from a stub whose
    solution has changed since.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.record = catalogue.root / "katas" / "stubs.json"

    def state(self, kata: Kata, path: Path | None = None) -> StubState:
        """Returns the state of the stub, or of a copy of it at `path`. Raises ExerciseError if it
        can't be read."""
        path = path or kata.stub_path
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return StubState.MISSING
        except OSError as error:
            raise unreadable(kata, path, error) from None
        if content == generate(kata).encode():
            return StubState.CURRENT
        old = fingerprint_of(content) == self._written(kata)
        return StubState.STALE if old else StubState.EDITED

    def is_edited(self, kata: Kata) -> bool:
        """True if the stub differs from the one that was written last, by its fingerprint. Reads no
        solution."""
        try:
            return fingerprint_of(kata.stub_path.read_bytes()) != self._written(kata)
        except OSError:
            return False

    def is_recorded(self, kata: Kata) -> bool:
        """True if the recorded fingerprint is that of the current solution's stub."""
        return self._written(kata) == fingerprint(generate(kata))

    def has_edited_tests(self, kata: Kata) -> bool:
        """True if the kata's tests differ from the tests as we wrote them, by their fingerprint."""
        known = self._read().get(_key_of_tests(kata))
        return known is not None and known != _fingerprint_of_tests(kata)

    def restore(self, kata: Kata, path: Path | None = None) -> Path | None:
        """Writes the stub, or the copy of it at `path`. Saves an edited one as `<kata>.py.bak`
        (.bak2 and so on if that exists) and returns the backup's path, or None without edits."""
        path = path or kata.stub_path
        backup = None
        if self.state(kata, path) is StubState.EDITED:
            backup = free_backup(path)
            write_whole(backup, path.read_bytes())
        if path == kata.stub_path:
            self._write(kata)
        else:
            write_whole(path, generate(kata).encode())
        return backup

    def stale_given(self) -> dict[Path, str]:
        """Returns the files given.py that are not as generated, each with its new text. Leaves out
        a system with a stub that can't be generated. Raises ExerciseError for helpers that
        conflict."""
        texts = {}
        for system in dict.fromkeys(kata.system for kata in self.catalogue.katas):
            path = path_of_given(self.catalogue.root, system)
            with contextlib.suppress(StubError):
                text = given_text(self.catalogue.of_system(system))
                if text != (path.read_text(encoding="utf-8") if path.is_file() else ""):
                    texts[path] = text
        return texts

    def write_all(self) -> list[Path]:
        """Writes the files given.py, and the stubs that are missing or stale, never an edited one.
        Returns the paths of the files that it wrote. Records the tests as they are now as ours."""
        given = self.stale_given()
        written = [*given]
        for path, text in given.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if text:
                write_whole(path, text.encode())
            else:
                path.unlink()
        for kata in self.catalogue.katas:
            state = self.state(kata)
            if state in (StubState.MISSING, StubState.STALE):
                self._write(kata)
                written.append(kata.stub_path)
            elif state is StubState.CURRENT:
                self._remember(kata)
        known = {_key(kata) for kata in self.catalogue.katas}
        stubs = {key: value for key, value in self._read().items() if key in known}
        tests = {_key_of_tests(kata): _fingerprint_of_tests(kata) for kata in self.catalogue.katas}
        self._save(stubs | {key: value for key, value in tests.items() if value})
        return written

    def _write(self, kata: Kata) -> None:
        kata.stub_path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kata.stub_path, generate(kata).encode())
        self._remember(kata)

    def _remember(self, kata: Kata) -> None:
        self._save({**self._read(), _key(kata): fingerprint(generate(kata))})

    def _written(self, kata: Kata) -> str | None:
        return self._read().get(_key(kata))

    def _read(self) -> dict[str, str]:
        return json.loads(self.record.read_text()) if self.record.is_file() else {}

    def _save(self, fingerprints: dict[str, str]) -> None:
        text = json.dumps(dict(sorted(fingerprints.items())), indent=2) + "\n"
        if not self.record.is_file() or self.record.read_text() != text:
            self.record.write_text(text)


def fingerprint(text: str) -> str:
    return fingerprint_of(text.encode())


def fingerprint_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def unreadable(kata: Kata, path: Path, error: OSError) -> ExerciseError:
    return ExerciseError(
        f"{kata.relative(path)} can't be read ({error.strerror or error}): move it away, and "
        f"`debubble reset {kata.name}` brings the exercise back"
    )


def write_whole(path: Path, content: bytes) -> None:
    """Writes `content` atomically: a reader of `path` finds all of it, or the old content. Raises
    OSError on failure."""
    path = path.resolve()
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def free_backup(path: Path) -> Path:
    """Returns the first path for a backup of `path` that does not exist yet: .py.bak, .py.bak2, and
    so on."""
    first = path.with_suffix(".py.bak")
    numbered = (path.with_suffix(f".py.bak{number}") for number in count(2))
    return next(name for name in chain([first], numbered) if not name.exists())


def _key(kata: Kata) -> str:
    return f"{kata.system}/{kata.name}"


def _key_of_tests(kata: Kata) -> str:
    return f"{kata.system}/{kata.test_path.stem}"


def _fingerprint_of_tests(kata: Kata) -> str:
    """Returns the fingerprint of the kata's tests, or "" if they are missing."""
    return fingerprint_of(kata.test_path.read_bytes()) if kata.test_path.is_file() else ""
