"""A line of code, and finding the learner's: the innermost frame that is not machinery."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from types import FrameType
from typing import NamedTuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MACHINERY = tuple(
    {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
_is_machinery: dict[str, bool] = {}


class SourceLine(NamedTuple):
    """A line of code outside PyTorch and debubble.

    `code` is the line's text where it is known already, as in a timeline that was loaded from a
    file; None means that it is read from `file` when asked for.
    """

    file: str
    line: int
    function: str
    code: str | None = None

    @property
    def text(self) -> str:
        """The source text of the line, stripped, or an empty string when it can't be read."""
        if self.code is not None:
            return self.code
        return linecache.getline(self.file, self.line).strip()

    @property
    def place(self) -> str:
        """`metadata.py:42`, or `this notebook, line 3` for a cell."""
        if is_notebook_cell(self.file):
            return f"this notebook, line {self.line}"
        return f"{os.path.basename(self.file)}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.text else self.place


def is_notebook_cell(file: str) -> bool:
    """IPython kernels give every cell a file name of its own that changes from run to run."""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def source_line(thread: int | None = None) -> SourceLine | None:
    """The line that is running now outside PyTorch, Triton, the standard library and debubble: in
    this thread, or in the one with that identifier."""
    frame = learner_frame(sys._getframe(1) if thread is None else sys._current_frames().get(thread))
    if frame is None:
        return None
    code = frame.f_code
    return SourceLine(code.co_filename, frame.f_lineno, code.co_qualname)


def learner_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None:
        if not is_machinery(frame.f_code.co_filename):
            return frame
        frame = frame.f_back
    return None


def is_machinery(file: str) -> bool:
    """Whether a file is PyTorch's, Triton's, the standard library's, debubble's or the like."""
    known = _is_machinery.get(file)
    if known is None:
        known = _is_machinery[file] = _judge(file)
    return known


def _judge(file: str) -> bool:
    if is_notebook_cell(file):
        return False
    if file.startswith("<"):
        return file != "<string>"
    path = os.path.abspath(file)
    return "site-packages" in path or path.startswith(_PACKAGE) or path.startswith(_MACHINERY)
