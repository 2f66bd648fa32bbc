"""The text of a trace file, plain or packed by gzip, in parts."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from os import PathLike
from typing import BinaryIO, cast

from ..timeline.trace_format import TraceFileError

Path = str | PathLike[str]
BYTES_AT_A_TIME = 2**22
GZIP = b"\x1f\x8b"
MOST_TIMES = 250
"""The most bytes of unpacked text for each byte of a file. Traces are 8 to 40 times as large;
text that repeats one character is about 1000 times as large."""
ALWAYS = 2**26
"""Unpacked bytes that any file may have."""


def is_packed(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == GZIP


def opening(path: Path, size: int = 65_536) -> str:
    """Returns the first characters of a file's text, unpacked. Raises TraceFileError for a file
    that can't be read."""
    return next(texts(path, size), "")


def texts(path: Path, size: int | None = None) -> Iterator[str]:
    """Yields a file's text in parts of `size` bytes, by default some MB. What is not UTF-8 in it,
    such as a function's name, is replaced. Raises TraceFileError for a file that can't be read."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for part in bytes_of(path, size or BYTES_AT_A_TIME):
        yield decoder.decode(part)


def bytes_of(path: Path, size: int) -> Iterator[bytes]:
    try:
        if os.path.isdir(path):
            raise TraceFileError(f"{path} is a folder: name one of the files in it.")
        if is_packed(path):
            yield from unpacked(path, size)
            return
        with open(path, "rb") as file:
            yield from iter(lambda: file.read(size), b"")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceFileError(
            f"{path} is cut off or damaged where gzip packed it ({error}): it may still be being "
            "written."
        ) from None
    except OSError as error:
        raise TraceFileError(f"{path} can't be read: {error.strerror or error}.") from None


def unpacked(path: Path, size: int) -> Iterator[bytes]:
    most, total = ALWAYS + MOST_TIMES * os.path.getsize(path), 0
    with gzip.open(path) as opened:
        file = cast("BinaryIO", opened)
        while part := file.read(size):
            if not total and part.startswith(GZIP):
                raise TraceFileError(f"{path} is packed twice: unpack it once with gunzip.")
            total += len(part)
            if total > most:
                raise TraceFileError(
                    f"{path} unpacks to more than {MOST_TIMES} times its size: it is no trace."
                )
            yield part
