"""Raises an error at a chosen line of our code, as Ctrl-C does at any."""

from __future__ import annotations

import gc
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import solutions.engine
import solutions.offload

FOLDERS = tuple(system.__path__[0] for system in (solutions.engine, solutions.offload))
NO_PLACE = re.compile(r"\s*(return( \w+)?|try:|finally:|else:|with .*)\n?")
"""Between these and the statement before them Python takes no signal."""

Trace = Callable[[FrameType, str, object], object]


class Lines:
    """The lines that run of files below `folders`, one after another, as often as they run. At
    those whose numbers are in `at`, `error` is raised."""

    def __init__(
        self,
        error: BaseException | None = None,
        at: Sequence[int] = (),
        folders: tuple[str, ...] = FOLDERS,
    ) -> None:
        self.error, self.at, self.folders = error, frozenset(at), folders
        self.count = 0
        self.first: dict[tuple[str, int], int] = {}
        """When each line of a file ran first, in lines."""

    @contextmanager
    def traced(self) -> Iterator[None]:
        before, collects = sys.gettrace(), gc.isenabled()
        # Or the collector would end another handler's life in here, at a line of its own.
        gc.disable()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)
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
                # An error that is raised in here ends the tracing, but for what runs already.
                raise self.error
        return self._at_line
