"""The stub files on disk: whether each is untouched, edited by a learner, or out of date."""

from __future__ import annotations

import hashlib
import json
import os
from enum import Enum
from itertools import chain, count
from pathlib import Path

from .catalogue import Catalogue, Kata, WorkshopError
from .stubs import generate


class StubState(Enum):
    CURRENT = "as generated"
    EDITED = "edited"
    STALE = "older than its solution"
    MISSING = "missing"


class StubFiles:
    """Reads and writes stubs, and remembers in `katas/stubs.json` what it wrote.

    Only so can it tell a learner's work, never to be overwritten, from a stub whose solution has
    changed since. It also remembers what tests belong to them.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.record = catalogue.root / "katas" / "stubs.json"

    def state(self, kata: Kata, path: Path | None = None) -> StubState:
        """Of the stub, or of a copy of it at `path`. WorkshopError where it can't be read."""
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
        """Whether the stub is not what was written last, as the record has it: no solution is
        read."""
        try:
            return fingerprint_of(kata.stub_path.read_bytes()) != self._written(kata)
        except OSError:
            return False

    def is_recorded(self, kata: Kata) -> bool:
        """Whether the record has the stub that belongs to the solution of today."""
        return self._written(kata) == fingerprint(generate(kata))

    def has_edited_tests(self, kata: Kata) -> bool:
        """Whether the kata's tests are not those that the record has."""
        known = self._read().get(_key_of_tests(kata))
        return known is not None and known != _fingerprint_of_tests(kata)

    def restore(self, kata: Kata, path: Path | None = None) -> Path | None:
        """Writes the stub, or the copy of it at `path`. An edited one is kept as `<kata>.py.bak`,
        or .bak2 and so on where others are kept; returns where."""
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

    def write_all(self) -> list[Kata]:
        """Writes stubs that are missing or stale, never an edited one; returns those written. The
        tests of today are ours from now on."""
        written = []
        for kata in self.catalogue.katas:
            state = self.state(kata)
            if state in (StubState.MISSING, StubState.STALE):
                self._write(kata)
                written.append(kata)
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


def unreadable(kata: Kata, path: Path, error: OSError) -> WorkshopError:
    return WorkshopError(
        f"{kata.relative(path)} can't be read ({error.strerror or error}): move it away, and "
        f"`debubble reset {kata.name}` brings the exercise back"
    )


def write_whole(path: Path, content: bytes) -> None:
    """Whoever reads `path` finds all of `content`, or what was there before. OSError if not."""
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
    """A name that nothing has."""
    first = path.with_suffix(".py.bak")
    numbered = (path.with_suffix(f".py.bak{number}") for number in count(2))
    return next(name for name in chain([first], numbered) if not name.exists())


def _key(kata: Kata) -> str:
    return f"{kata.system}/{kata.name}"


def _key_of_tests(kata: Kata) -> str:
    return f"{kata.system}/{kata.test_path.stem}"


def _fingerprint_of_tests(kata: Kata) -> str:
    """Empty where there are none."""
    return fingerprint_of(kata.test_path.read_bytes()) if kata.test_path.is_file() else ""
