"""Compilations: the keys with which kernels were compiled, and regions that forbid new ones."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from weakref import finalize

from .backward_pass import learners_line
from .recorded import FIRST
from .regions import Act
from .source_line import SourceLine

Key = tuple[tuple[str, str], ...]
"""The key under which a compiled kernel is stored: what is special about each argument, by name.
`(("n", "1"), ("x", "float32, at a multiple of 16 bytes"))` are two of them."""


class UnexpectedCompile(RuntimeError):
    """Raised where a kernel would be compiled in a region that forbids it. `kernel` is its name,
    `missed` says which arguments were new, and `source` is the line that calls it."""

    def __init__(self, kernel: str, missed: str, source: SourceLine | None) -> None:
        self.kernel, self.missed, self.source = kernel, missed, source
        where = f" at {source.whole}" if source else ""
        super().__init__(f"{kernel} is compiled{where}, because of {missed}")


COMPILATION = Act("compilations")


@contextmanager
def allow_compiles() -> Iterator[None]:
    """Allows compilations in a block, inside `no_compiles` too: a warm-up. `find_host_syncs` lists
    them separately."""
    with COMPILATION.allowing():
        yield


def check(kernel: str, missed: str) -> None:
    """Raises UnexpectedCompile if the region around the running code forbids compilations."""
    if not COMPILATION.is_forbidden():
        return
    error = UnexpectedCompile(kernel, missed, learners_line())
    COMPILATION.note_refused(error)
    raise error


class Compiled:
    """The keys with which each kernel was compiled so far. Two kernels made of one function are
    compiled separately, as by Triton, so a kernel is known by its identity as long as it lives."""

    def __init__(self) -> None:
        self._keys: dict[int, dict[Key, None]] = {}
        self._lock = threading.Lock()
        self.count = 0
        """The number of compilations."""

    def misses(self, kernel: object, name: str, key: Key, first: str = FIRST) -> str | None:
        """Returns None if the kernel was compiled with this key, or else what is new about the key:
        `first` if no key of the kernel is known. Adds the key. Raises UnexpectedCompile instead,
        and adds nothing, in a region that forbids compilations."""
        known = self._keys.get(id(kernel))
        if known is not None and key in known:
            return None
        missed = difference(known, key) if known else first
        check(name, missed)
        with self._lock:
            if id(kernel) not in self._keys:
                self._keys[id(kernel)] = {}
                finalize(kernel, self._keys.pop, id(kernel), None)
            self._keys[id(kernel)][key] = None
            self.count += 1
        return missed

    def keys_of(self, kernel: object) -> tuple[Key, ...]:
        """Returns the keys with which the kernel was compiled, oldest first."""
        return tuple(self._keys.get(id(kernel), ()))


def difference(known: Iterable[Key], key: Key) -> str:
    """Returns what is new about a key, compared with the nearest known one: `n: 1, was a
    multiple of 16`. Returns FIRST if no key is known."""
    apart = sorted([changes(old, key) for old in known], key=len)
    return ", and ".join(apart[0]) if apart else FIRST


def changes(old: Key, new: Key) -> list[str]:
    """Returns a text for each argument in which two keys differ."""
    before, after = dict(old), dict(new)
    return [
        f"{name}: {after.get(name, 'left out')}, was {before.get(name, 'left out')}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
