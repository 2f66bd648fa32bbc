"""Finds the learner's line of code: the innermost frame that belongs neither to machinery nor to a
library, with the lines of libraries that it called."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterable
from itertools import islice
from types import CodeType, FrameType
from typing import Literal, NamedTuple

Whose = Literal["the user's", "a library's", "PyTorch's", "the test runner's", "machinery"]

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STDLIB = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
_SITES = ("site-packages", "dist-packages")
_MACHINERY = {"torch", "triton", "functorch", "torchgen", "numpy", "debubble", "_pytest", "pluggy"}
"""Packages that are never named as the place of a wait, because their lines don't explain it."""
_PLUMBING = (
    ("torch", "_tensor.py"),
    ("torch", "_tensor_str.py"),
    ("torch", "functional.py"),
    ("torch", "overrides.py"),
    ("torch", "storage.py"),
    ("torch", "_ops.py"),
    ("torch", "_compile.py"),
    ("torch", "_jit_internal.py"),
    ("torch", "_decomp"),
    ("torch", "_dynamo"),
    ("torch", "_inductor"),
    ("torch", "_functorch"),
    ("torch", "_higher_order_ops"),
    ("torch", "_library"),
    ("torch", "_prims"),
    ("torch", "_prims_common"),
    ("torch", "_refs"),
    ("torch", "_subclasses"),
    ("torch", "fx"),
    ("torch", "library.py"),
    ("torch", "autograd"),
    ("torch", "cuda"),
    ("torch", "accelerator"),
    ("torch", "utils", "_python_dispatch.py"),
    ("torch", "utils", "_contextlib.py"),
    ("torch", "utils", "_device.py"),
    ("torch", "nn", "modules", "container.py"),
)
"""Files and folders of PyTorch that are skipped in a search for PyTorch's own line, because they
explain no more than the call that led to them."""
_whose: dict[str, Whose] = {}
_included: set[str] = set()
_callers: set[str] = set()
_lines: dict[tuple[int, int], tuple[CodeType, SourceLine]] = {}
"""Known lines, by the identity of the code and the instruction in it. The code is stored too, so
that its identity isn't reused."""
MOST_LINES = 100_000


class SourceLine(NamedTuple):
    """A line of code, usually of the learner's own, that a wait or an event is traced back to.

    `code` is the line's text if it is known already, as in a timeline that was loaded from a file;
    None means that it is read from `file` on use. `column` is the column at which the call begins,
    which distinguishes two calls in one line. `inside` has the lines of libraries that were called
    from there, the innermost last. In a backward pass `forward` is the line whose gradient is
    computed, if that was recorded.
    """

    file: str
    line: int
    function: str
    code: str | None = None
    column: int | None = None
    inside: tuple[SourceLine, ...] = ()
    forward: SourceLine | None = None

    @property
    def text(self) -> str:
        """The source text of the line, stripped, or an empty string when it can't be read."""
        if self.code is not None:
            return self.code
        return linecache.getline(self.file, self.line).strip()

    @property
    def place(self) -> str:
        """The file and line: `metadata.py:42`. In a notebook the cell and line: `cell [12], line
        3`, with the number that the notebook shows beside the cell, if it is known."""
        if is_notebook_cell(self.file):
            cell = cell_number(self.file)
            where = "this notebook" if cell is None else f"cell [{cell}]"
            return f"{where}, line {self.line}"
        return f"{os.path.basename(self.file)}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.text else self.place

    @property
    def whole(self) -> str:
        """The line in words, with the innermost library line that it called, and with the line
        whose gradient it computes, if there are any."""
        inside = f", in {self.inside[-1].in_library}" if self.inside else ""
        forward = f", for the gradient of {self.forward}" if self.forward else ""
        return f"{self}{inside}{forward}"

    @property
    def outside_pytorch(self) -> SourceLine:
        """The same line without PyTorch's own line at the end of `inside`, if there is one."""
        if not self.inside or not is_of_pytorch(self.inside[-1].file):
            return self
        return self._replace(inside=self.inside[:-1])

    @property
    def in_library(self) -> str:
        """The line in words with its path below site-packages,
        `transformers/generation/utils.py:2801: ...`, since a library's file name alone says too
        little."""
        parts = self.file.split(os.sep)
        sites = [number for number, part in enumerate(parts) if part in _SITES]
        file = "/".join(parts[sites[-1] + 1 :]) if sites else parts[-1]
        return f"{file}:{self.line}: {self.text}"


def is_notebook_cell(file: str) -> bool:
    """Returns True for the file name of a notebook cell. IPython kernels invent a name for every
    cell and change it from run to run."""
    return "ipykernel_" in file or file.startswith("<ipython-input")


def cell_number(file: str) -> int | None:
    """Returns the number that a notebook shows beside the cell with this file name, or None if the
    cell is of another session and was not saved with its number."""
    if saved := _SAVED_CELL.search(file):
        return int(saved[1])
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    _, name = (name_of and name_of(file)) or ("Cell", "")
    shown = _SHOWN_CELL.fullmatch(name)
    return int(shown[1]) if shown else None


_SAVED_CELL = re.compile(r"cell_(\d{1,9})\.py$")
"""The file name of a cell in a saved timeline."""
_SHOWN_CELL = re.compile(r"In\[(\d+)\]")
"""IPython's name of a cell."""


def source_line(thread: int | None = None, pytorch: bool = False) -> SourceLine | None:
    """Returns the line that this thread, or the thread with that identifier, is running outside
    PyTorch, Triton, the standard library and debubble. Returns None if there is none.

    Prefers the innermost line of the user's own code, and adds the lines of libraries that it
    called as `inside`; without one, returns the innermost line of a library. With `pytorch`, the
    last line of `inside` is the innermost line of PyTorch's own Python, if the user's line or a
    library's called any.
    """
    frame = sys._getframe(1) if thread is None else sys._current_frames().get(thread)
    libraries: list[FrameType] = []
    of_pytorch: FrameType | None = None
    while frame is not None:
        whose = _whose.get(frame.f_code.co_filename) or whose_is(frame.f_code.co_filename)
        if whose == "the user's":
            line = _line_of(frame)
            inside = [of_pytorch, *libraries] if of_pytorch is not None else libraries
            return line._replace(inside=_lines_of(inside)) if inside else line
        if whose == "a library's":
            libraries.append(frame)
        elif whose == "PyTorch's" and pytorch and of_pytorch is None and not libraries:
            of_pytorch = frame if frame.f_code.co_name not in _CALLS_MODULES else None
        elif whose == "the test runner's":
            break
        frame = frame.f_back
    if not libraries:
        return None
    line = _line_of(libraries[0])
    return line if of_pytorch is None else line._replace(inside=_lines_of([of_pytorch]))


_CALLS_MODULES = {"_call_impl", "_wrapped_call_impl"}
"""Functions of `torch.nn.Module` through which each call of a module goes."""


def _lines_of(frames: Iterable[FrameType]) -> tuple[SourceLine, ...]:
    """Returns the source lines of `frames`, which begin with the innermost, in reverse: the
    innermost line comes last."""
    return tuple([_line_of(frame) for frame in frames][::-1])


def _line_of(frame: FrameType) -> SourceLine:
    code, instruction = frame.f_code, frame.f_lasti
    known = _lines.get((id(code), instruction))
    if known is not None:
        return known[1]
    places = islice(code.co_positions(), max(instruction, 0) // 2, None)
    column = next(places, (None,) * 4)[2]
    line = SourceLine(code.co_filename, frame.f_lineno, code.co_qualname, None, column)
    if len(_lines) < MOST_LINES:
        _lines[id(code), instruction] = code, line
    return line


def is_machinery(file: str) -> bool:
    """Returns True if the file is not the user's: PyTorch's, the standard library's or a
    library's."""
    return whose_is(file) != "the user's"


def whose_is(file: str) -> Whose:
    known = _whose.get(file)
    if known is None:
        known = _whose[file] = _judge(file)
    return known


def include_packages(names: Iterable[str]) -> None:
    """Makes the installed packages of these names count as the user's own code, so that their lines
    are named."""
    _included.update(names)
    _whose.clear()


def count_as_library(file: str) -> None:
    """Makes a file that calls the user's code, such as a kata's test, count as a library's: its
    lines are named only where no line of the user's own is running."""
    path = os.path.abspath(file)
    if path not in _callers:
        _callers.add(path)
        _whose.clear()


def _judge(file: str) -> Whose:
    if is_notebook_cell(file):
        return "the user's"
    if file.startswith("<"):
        return "the user's" if file == "<string>" else "machinery"
    path = os.path.abspath(file)
    if path in _callers:
        return "a library's"
    package = _installed_package(path)
    if package is not None and package in _included:
        return "the user's"
    if package == "_pytest":
        return "the test runner's"
    if path.startswith(PACKAGE) or package in _MACHINERY or _is_compiled(path):
        return "PyTorch's" if is_of_pytorch(path) and not _is_plumbing(path) else "machinery"
    if package is not None:
        return "a library's"
    return "machinery" if path.startswith(_STDLIB) else "the user's"


def is_of_pytorch(file: str) -> bool:
    """Returns True for a file of the package torch, whose path may begin at the package, as in a
    saved timeline."""
    parts = file.replace(os.sep, "/").split("/")
    sites = [number for number, part in enumerate(parts) if part in _SITES]
    return parts[sites[-1] + 1 if sites else 0] == "torch" and len(parts) > 1


def _is_plumbing(path: str) -> bool:
    return any(os.path.join(os.sep, *parts) in path for parts in _PLUMBING)


def _is_compiled(path: str) -> bool:
    """Returns True if torch.compile has written the file: it lies in PyTorch's cache of compiled
    code, whose variable PyTorch sets when it first writes there."""
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return folder is not None and path.startswith(os.path.join(folder, ""))


def _installed_package(path: str) -> str | None:
    """Returns the name of the installed package that a file belongs to, or None."""
    parts = path.split(os.sep)
    for site in _SITES:
        if site in parts:
            return _top(os.sep.join(parts[parts.index(site) + 1 :]))
    for folder in _INSTALLED:
        if path.startswith(folder):
            return _top(path.removeprefix(folder))
    return None


def _top(path: str) -> str:
    """Returns the package of a path relative to site-packages: `transformers` for
    transformers/utils.py, `six` for six.py."""
    return path.partition(os.sep)[0].removesuffix(".py")
