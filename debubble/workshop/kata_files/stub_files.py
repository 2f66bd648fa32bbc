"""The stub files on disk: whether each is untouched, edited by a learner, or out of date."""

from __future__ import annotations

import hashlib
import json
from enum import Enum
from pathlib import Path

from .catalogue import Catalogue, Kata
from .stubs import generate


class StubState(Enum):
    CURRENT = "as generated"
    EDITED = "edited"
    STALE = "older than its solution"
    MISSING = "missing"


class StubFiles:
    """Reads and writes stubs, and remembers in `katas/stubs.json` what it wrote.

    Only so can it tell a learner's work, never to be overwritten, from a stub whose solution has
    changed since.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.record = catalogue.root / "katas" / "stubs.json"

    def state(self, kata: Kata) -> StubState:
        if not kata.stub_path.is_file():
            return StubState.MISSING
        text = kata.stub_path.read_text(encoding="utf-8")
        if text == generate(kata):
            return StubState.CURRENT
        return StubState.STALE if fingerprint(text) == self._written(kata) else StubState.EDITED

    def is_recorded(self, kata: Kata) -> bool:
        """Whether the record has the stub that belongs to the solution of today."""
        return self._written(kata) == fingerprint(generate(kata))

    def restore(self, kata: Kata) -> Path | None:
        """Writes the stub; an edited one is kept as `<kata>.py.bak`, whose path is returned."""
        backup = None
        if self.state(kata) is StubState.EDITED:
            backup = kata.stub_path.with_suffix(".py.bak")
            backup.write_bytes(kata.stub_path.read_bytes())
        self._write(kata)
        return backup

    def write_all(self) -> list[Kata]:
        """Writes stubs that are missing or stale, never an edited one; returns those written."""
        written = []
        for kata in self.catalogue.katas:
            state = self.state(kata)
            if state in (StubState.MISSING, StubState.STALE):
                self._write(kata)
                written.append(kata)
            elif state is StubState.CURRENT:
                self._remember(kata)
        known = {_key(kata) for kata in self.catalogue.katas}
        self._save({key: value for key, value in self._read().items() if key in known})
        return written

    def _write(self, kata: Kata) -> None:
        kata.stub_path.parent.mkdir(parents=True, exist_ok=True)
        kata.stub_path.write_text(generate(kata), encoding="utf-8")
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
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _key(kata: Kata) -> str:
    return f"{kata.system}/{kata.name}"
