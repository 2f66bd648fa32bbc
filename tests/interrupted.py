"""Raises an error at a chosen line of our code, as Ctrl-C can at any line."""

from __future__ import annotations

import gc
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import solutions.engine
import solutions.models
import solutions.offload

FOLDERS = tuple(
    system.__path__[0] for system in (solutions.engine, solutions.models, solutions.offload)
)
NO_PLACE = re.compile(r"\s*(return( \w+)?|try:|finally:|else:|with .*)\n?")
"""A pattern of the lines at which no error is raised, since Python handles no signal before
them."""

Trace = Callable[[FrameType, str, object], object]


class Lines:
    """Counts the lines that run in files below `folders`, in order and with repeats, and raises
    `error` when the count reaches a number in `at`.

    Tracing is slow. So nothing is counted after the last line in `at`, and with `counted`, the
    lines of the same program without an error, no block of lines that ends before the first."""

    def __init__(
        self,
        error: BaseException | None = None,
        at: Sequence[int] = (),
        folders: tuple[str, ...] = FOLDERS,
        counted: Lines | None = None,
    ) -> None:
        self.error, self.at, self.folders = error, frozenset(at), folders
        self.count = 0
        self.ends: list[int] = []
        """The count at the end of each traced block."""
        self.known_ends = iter(counted.ends if counted else ())
        self.first: dict[tuple[str, int], int] = {}
        """The count at which each line, as (file, line number), ran for the first time."""

    @contextmanager
    def traced(self) -> Iterator[None]:
        if self.at and self.count >= max(self.at):
            yield
            return
        end = next(self.known_ends, None)
        if end is not None and end < min(self.at):
            self.count = end
            yield
            return
        before, collects = sys.gettrace(), gc.isenabled()
        # Otherwise the garbage collector could finalise objects at a traced line.
        gc.disable()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
            self.ends.append(self.count)
            if collects:
                gc.enable()

    def _enter(self, frame: FrameType, event: str, arg: object) -> Trace | None:
        return self._at_line if frame.f_code.co_filename.startswith(self.folders) else None

    def _at_line(self, frame: FrameType, event: str, arg: object) -> Trace:
        if event == "line" and not NO_PLACE.fullmatch(
            linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        ):
            self.count += 1
            self.first.setdefault((frame.f_code.co_filename, frame.f_lineno), self.count)
            if self.error is not None and self.count in self.at:
                # An error that is raised here ends the tracing, except in frames
                # that already run.
                raise self.error
        return self._at_line
