"""Passwords: one for the class, one for the teacher, and each learner's own.

The class password lets somebody in for the first time, and then they choose their own, so that
nobody who knows the first can be somebody else afterwards. Only a salted hash of each is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import threading
import time
from collections import defaultdict
from pathlib import Path

from .refusal import Refusal

LEAST_LETTERS = 8
MOST_LETTERS = 200
FREE_TRIES = 5
"""So many wrong passwords cost nothing; each further one doubles the wait."""
FREE_TRIES_OF_AN_ADDRESS = 60
"""A whole class may sit behind one address."""
LONGEST_WAIT = 300.0
FORGOTTEN_AFTER = 900.0
ALONE = threading.Lock()
"""Held while the file is read and written anew."""


class Passwords:
    def __init__(self, state: Path) -> None:
        self.file = state / "passwords.json"

    def prepare(self, teacher: str, asked: str) -> dict[str, str]:
        """Sets the class password, `asked` or one of ours, and the teacher's, where there is none.
        Returns what was set now: it can't be read again."""
        if asked and len(asked) < LEAST_LETTERS:
            raise Refusal(f"HUB_PASSWORD has {len(asked)} letters: it needs {LEAST_LETTERS}")
        known = self._read()
        new = {}
        if asked or "class" not in known["shared"]:
            new["class"] = asked or _words()
            known["shared"]["class"] = _hashed(new["class"])
        if teacher not in known["own"]:
            new[teacher] = _words(5)
            known["own"][teacher] = _hashed(new[teacher])
        if new:
            self._write(known)
        return new

    def has_own(self, name: str) -> bool:
        return name in self._read()["own"]

    def is_own(self, name: str, password: str) -> bool:
        return _fits(password, self._read()["own"].get(name, ""))

    def is_class(self, password: str) -> bool:
        return _fits(password, self._read()["shared"].get("class", ""))

    def choose(self, name: str, password: str) -> bool:
        """False where they have one already: a whole class chooses at once, each in a thread."""
        hashed = _hashed(password)
        with ALONE:
            known = self._read()
            if name in known["own"]:
                return False
            known["own"][name] = hashed
            self._write(known)
            return True

    def forget(self, name: str) -> bool:
        """They choose anew with the class password; False where they have none."""
        with ALONE:
            known = self._read()
            had = known["own"].pop(name, None)
            self._write(known)
        return had is not None

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            return json.loads(self.file.read_text())
        except FileNotFoundError:
            return {"shared": {}, "own": {}}

    def _write(self, known: dict) -> None:
        """Whole or not at all: a full disk loses nobody's password."""
        beside = self.file.with_suffix(".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(known, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.file)


class Patience:
    """Slows down whoever guesses: by name, and by the address that they come from."""

    def __init__(self, clock=time.monotonic) -> None:
        self.clock = clock
        self.wrong: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))

    def wait_for(self, name: str, address: str) -> float:
        """Seconds until another try counts; 0 where it does now."""
        waits = [self._wait(f"name {name}", FREE_TRIES)]
        waits.append(self._wait(f"address {address}", FREE_TRIES_OF_AN_ADDRESS))
        return max(waits)

    def failed(self, name: str, address: str) -> None:
        if len(self.wrong) > 10_000:
            self.wrong.clear()  # Guessing names fills no memory.
        for key in (f"name {name}", f"address {address}"):
            count, _ = self._still_known(key)
            self.wrong[key] = (count + 1, self.clock())

    def succeeded(self, name: str) -> None:
        self.wrong.pop(f"name {name}", None)

    def _wait(self, key: str, free: int) -> float:
        count, last = self._still_known(key)
        if count < free:
            return 0.0
        wait = min(LONGEST_WAIT, 2.0 ** (count - free + 1))
        return max(0.0, last + wait - self.clock())

    def _still_known(self, key: str) -> tuple[int, float]:
        count, last = self.wrong.get(key, (0, 0.0))
        return (0, 0.0) if self.clock() - last > FORGOTTEN_AFTER else (count, last)


def _words(count: int = 3) -> str:
    """Easy to read aloud, and `count` times 23 bits."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    return "-".join("".join(secrets.choice(syllables) for _ in range(4)) for _ in range(count))


def _hashed(password: str) -> str:
    salt = secrets.token_bytes(16)
    return f"{salt.hex()}:{_scrypt(password, salt).hex()}"


def _fits(password: str, hashed: str) -> bool:
    """An empty hash takes as long, so that nobody learns from the time who has a password."""
    salt, _, wanted = hashed.partition(":")
    found = _scrypt(password[:MOST_LETTERS], bytes.fromhex(salt or "00" * 16)).hex()
    return hmac.compare_digest(found, wanted)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
