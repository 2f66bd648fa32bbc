"""`progress.jsonl` on disk: many processes add events to it, and none of the events is lost.

An event is appended by one write to a file opened with O_APPEND, under a lock on that file. The
kernel of the operating system releases the lock when its holder ends, however it ends. A file that
has grown too large is thinned under the same lock, and a new file takes its place.

Some network drives and Windows have no such locks. There events are appended as well, and the file
is never replaced: so nothing is lost, and the file is not thinned.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from .events import HEADER, VERSION, ProgressEvent, Standing, parsed, version_of, written
from .thinning import thinned

NAME = "progress.jsonl"
MOST_BYTES = 1_000_000
ROOM = 800_000
"""The size in bytes that a file larger than MOST_BYTES is thinned to."""
LONGEST_HEADER = 1_000
FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class ProgressError(Exception):
    """An error for a file that can't be read or written safely; the message is a sentence with the
    way out."""


class ProgressFile:
    """The file of events at `path`, such as a learner's `progress.jsonl`; messages call it
    `shown_path`."""

    def __init__(self, path: Path, shown_path: str | None = None) -> None:
        self.path, self.shown_path = path, shown_path or str(path)

    def events(self) -> list[ProgressEvent]:
        """Returns the events, oldest first: an empty list if there is no file. Raises ProgressError
        if the file can't be read or is of a newer version."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreadable(error) from None
        self._check_version(content)
        return [*parsed(content)]

    def standings(self) -> dict[str, Standing]:
        """Returns the learner's standing with each kata, by the kata's name; a kata without events
        is left out."""
        standings: dict[str, Standing] = {}
        for event in self.events():
            name = event.get("kata")
            if isinstance(name, str):
                standings[name] = standings.get(name, Standing()).after(event)
        return standings

    def add(self, events: Iterable[ProgressEvent]) -> None:
        """Appends events, in a new file if there is none. Raises OSError if that is not possible
        and ProgressError as `events()` does; the file is unchanged then."""
        lines = written(events)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._open() as (file, is_alone):
            size = os.fstat(file).st_size
            opening = _read(file, 0, LONGEST_HEADER)
            self._check_version(opening)
            has_header = version_of(_first_line(opening)) is not None
            if is_alone and size and (size + len(lines) > MOST_BYTES or not has_header):
                self._replace(file, _read(file, 0, size), lines, has_header)
                return
            if not size:
                lines = HEADER + lines
            elif _read(file, size - 1, 1) != b"\n":  # A writer ended in the middle of its line.
                lines = b"\n" + lines
            try:
                _write_all(file, lines)
            except BaseException:
                if is_alone:
                    with contextlib.suppress(OSError):
                        os.ftruncate(file, size)
                raise

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[int, bool]]:
        """Opens the file to append to, under its lock. Yields its descriptor, and True if the lock
        keeps other processes from writing, or False if there are no locks."""
        while True:
            file = os.open(self.path, FLAGS | os.O_CREAT, 0o666)
            is_alone = _lock(file)
            try:
                # Another process may have replaced the file while this one waited for the lock.
                if not is_alone or self._is_at_path(file):
                    yield file, is_alone
                    return
            finally:
                if is_alone:
                    _unlock(file)
                os.close(file)

    def _is_at_path(self, file: int) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(file), os.stat(self.path))
        return False

    def _replace(self, file: int, content: bytes, lines: bytes, has_header: bool) -> None:
        """Replaces the file by a thinned one, with its `content` and the new `lines`. If it has no
        header, from before there were versions, it is first saved beside it as `.old`."""
        path = self.path.resolve()
        older = path.with_name(f"{path.name}.old")
        if not has_header and not older.exists():
            _write_whole(older, content, file)
        _write_whole(path, thinned(content, lines, MOST_BYTES, ROOM), file)

    def _check_version(self, content: bytes) -> None:
        version = version_of(_first_line(content))
        if version is not None and version > VERSION:
            raise ProgressError(
                f"{self.shown_path} is of version {version}, and this debubble knows {VERSION}: "
                "bring the workbook up to date"
            )

    def _unreadable(self, error: OSError) -> ProgressError:
        return ProgressError(
            f"{self.shown_path} can't be read ({error.strerror or error}): move it away to begin a "
            "new one"
        )


def _first_line(content: bytes) -> bytes:
    return content[:LONGEST_HEADER].partition(b"\n")[0]


def _read(file: int, start: int, count: int) -> bytes:
    """Returns up to `count` bytes of the open file from byte `start` on. It moves the file's
    position, which appending doesn't use."""
    os.lseek(file, start, os.SEEK_SET)
    parts = []
    while count and (part := os.read(file, count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]
    os.fsync(file)


def _write_whole(path: Path, content: bytes, like: int) -> None:
    """Writes `content` to `path`, with the permissions of the open file `like`. On failure `path`
    is as it was."""
    unfinished = path.with_name(f"{path.name}.unfinished")  # The lock's holder alone writes it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0)
    try:
        new = os.open(unfinished, flags, stat.S_IMODE(os.fstat(like).st_mode))
        try:
            _write_all(new, content)
        finally:
            os.close(new)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _lock(file: int) -> bool:
    """Waits until no other process or thread has the lock of this file. Returns False if the system
    or the drive has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
    except (ImportError, OSError):
        return False
    return True


def _unlock(file: int) -> None:
    """Releases the file's lock, even if a child process has inherited the open file."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)
