"""Passwords: one for the class, one for the teacher, and each learner's own.

The class password lets a learner in once, and then they choose their own, so that a person who
knows the class password can't log in as someone else afterwards. Only a salted hash of each is
stored.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .refusal import Refusal

LEAST_LETTERS = 8
MOST_LETTERS = 200
FREE_TRIES = 5
"""Number of wrong passwords that are answered at once; before each later one the pause doubles."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 5.0
LONGEST_LINE = 60.0
"""The most seconds that a try may wait for the pending tries before it. A try that would wait
longer is refused unread."""
FORGOTTEN_AFTER = 900.0
MOST_REMEMBERED = 10_000


class Passwords:
    def __init__(self, state: Path) -> None:
        self.file = state / "passwords.json"

    def prepare(self, teacher: str, asked: str) -> dict[str, str]:
        """Sets the class password to `asked`, or to a generated one if there is none, and the
        teacher's if there is none. Returns the new passwords by whose they are; they can't be read
        again. Raises Refusal if `asked` is too short."""
        if asked and len(asked) < LEAST_LETTERS:
            raise Refusal(f"HUB_PASSWORD has {len(asked)} letters: it needs {LEAST_LETTERS}")
        new = {}
        with self._alone():
            known = self._read()
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

    def choose(self, name: str, password: str, *, agrees: bool = False) -> bool:
        """Stores a learner's own password, and if the learner `agrees` to be named on the board.
        Returns False if they have a password already: a whole class chooses at once, each in a
        thread."""
        hashed = _hashed(password)
        with self._alone():
            known = self._read()
            if name in known["own"]:
                return False
            known["own"][name] = hashed
            named = (
                {*known.get("named", ()), name} if agrees else {*known.get("named", ())} - {name}
            )
            self._write({**known, "named": sorted(named)})
            return True

    def named(self) -> set[str]:
        """Returns the learners who agreed to be named on the board."""
        return {*self._read().get("named", ())}

    def forget(self, name: str) -> bool:
        """Removes a learner's password, so that they choose again with the class password. Returns
        False if they have none."""
        with self._alone():
            known = self._read()
            had = known["own"].pop(name, None)
            self._write(known)
        return had is not None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Locks the file of passwords while it is read and written, against other threads and
        against the process of `forget`."""
        with self.file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, Any]:
        try:
            return json.loads(self.file.read_text())
        except FileNotFoundError:
            return {"shared": {}, "own": {}}

    def _write(self, known: dict) -> None:
        """Writes the file of passwords atomically: a full disk loses no password."""
        beside = self.file.with_suffix(".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(known, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.file)


class Patience:
    """A brake on guessing, by name and address together, so that a guesser delays only themselves.

    A try is never refused because of the wrong tries before it: it is read later. So the right
    password always works, and a guesser gets one answer in `LONGEST_PAUSE` seconds. Tries are
    counted when they begin, so that a hundred at once gain nothing.
    """

    def __init__(self, clock=time.monotonic) -> None:
        self.clock = clock
        self.tries: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def begin(self, name: str, address: str) -> float | None:
        """Counts a try of a password, and returns in how many seconds it will be read; None if too
        many are pending."""
        key, now = (name, address), self.clock()
        count, last = self._known(key)
        at = max(now, last + _pause(count))
        if at - now > LONGEST_LINE:
            return None
        self.tries[key] = (count + 1, at)
        self.tries.move_to_end(key)
        if len(self.tries) > MOST_REMEMBERED:
            self.tries.popitem(last=False)
        return at - now

    def wait_for(self, name: str, address: str) -> float:
        """Returns in how many seconds the next try of a password would be read, without counting
        one."""
        count, last = self._known((name, address))
        return max(0.0, last + _pause(count) - self.clock())

    def succeeded(self, name: str, address: str) -> None:
        self.tries.pop((name, address), None)

    def _known(self, key: tuple[str, str]) -> tuple[int, float]:
        count, last = self.tries.get(key, (0, 0.0))
        return (0, 0.0) if self.clock() - last > FORGOTTEN_AFTER else (count, last)


def _pause(count: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(count - FREE_TRIES, 10)) * (
        count >= FREE_TRIES
    )


def _words(count: int = 3) -> str:
    """Returns a password of `count` words that is easy to read aloud. Each word has 24.5 bits."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    return "-".join("".join(secrets.choice(syllables) for _ in range(4)) for _ in range(count))


def _hashed(password: str) -> str:
    salt = secrets.token_bytes(16)
    return f"{salt.hex()}:{_scrypt(password, salt).hex()}"


def _fits(password: str, hashed: str) -> bool:
    """Returns True if the hash is that of the password. An empty hash takes as long, so that the
    time doesn't reveal who has a password."""
    salt, _, wanted = hashed.partition(":")
    found = _scrypt(password[:MOST_LETTERS], bytes.fromhex(salt or "00" * 16)).hex()
    return hmac.compare_digest(found, wanted)


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
