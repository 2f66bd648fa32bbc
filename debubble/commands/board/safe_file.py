"""Reads a file that someone else wrote into their folder, perhaps with bad intent.

A link, anywhere in the path, is not followed: it could lead to a file that only the reader may see.
A pipe is not waited for, and a device is not read. Only the end of a large file is read, up to
MOST_BYTES.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 2_000_000
"""The most bytes read: twice the size to which `progress.jsonl` grows by itself."""
FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class Version:
    """The identity of a file's content: as long as it is the same, the file is unchanged."""

    inode: int
    size: int
    changed_ns: int


@dataclass(frozen=True)
class Read:
    version: Version
    content: bytes
    is_cut: bool
    """True if content before `content` was left out."""


def read(
    folder: Path, parts: Sequence[str], known: Version | None = None, owner: int | None = None
) -> Read | Version | None:
    """Returns the content of `folder`/`parts`, or `known` itself if the file still has that
    version. Returns None if it is no plain file, can't be read, or isn't `owner`'s. Only `folder`
    itself may be a link."""
    try:
        file = _open(folder, parts)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        version = Version(about.st_ino, about.st_size, about.st_mtime_ns)
        if not stat.S_ISREG(about.st_mode) or owner not in (None, about.st_uid):
            return None
        if version == known:
            return known
        start = max(0, about.st_size - MOST_BYTES)
        data = os.pread(file, MOST_BYTES, start)
        return Read(version, data, start > 0)
    except OSError:
        return None
    finally:
        os.close(file)


def _open(folder: Path, parts: Sequence[str]) -> int:
    at = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    for part in parts:
        above = at
        try:
            at = os.open(part, FLAGS, dir_fd=above)
        finally:
            os.close(above)
    return at
