"""Reads a file that somebody else wrote into a folder of theirs, and may have meant harm by.

A link, wherever in the path, is not followed: it could lead to what the reader alone may see. A
pipe is not waited for, a device is not opened, and of a file of any size only the last megabyte is
looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 2_000_000
"""Twice what `progress.jsonl` grows to by itself."""
FLAGS = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True)
class Version:
    """As long as these are the same, so is the file."""

    inode: int
    size: int
    changed_ns: int


@dataclass(frozen=True)
class Read:
    version: Version
    content: bytes
    is_cut: bool
    """True if something before `content` was left out."""


def read(
    folder: Path, parts: Sequence[str], known: Version | None = None, owner: int | None = None
) -> Read | Version | None:
    """What `folder`/`parts` holds, or `known` itself where it is still that version; None where it
    is no plain file, can't be read, or isn't `owner`'s. Only `folder` itself may be a link."""
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
