"""Marks in a Kineto trace that name the learner's line for a stretch of host time.

Kineto's own stacks name a function and its first line. So every PyTorch call of a recorded block is
wrapped in an annotation, whose number stands for the exact line and for whether a wait is allowed
there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from debubble.contract.backward_pass import UNDER_WAY, next_node, note_forward, with_forward
from debubble.contract.compiles import COMPILATION
from debubble.contract.host_syncs import HOST_SYNC
from debubble.contract.source_line import SourceLine, source_line
from debubble.private.torch import RecordFunctionFast, get_current_function_mode_stack
from debubble.rules.calls import describe
from debubble.timeline.threads import ANOTHER, name_of
from debubble.traces.names import PREFIX

COPY = f"{PREFIX}copy:"
"""The prefix of a mark around a copy, followed by the name of the driver's function."""
COMPILE = f"{PREFIX}compile:"
"""The prefix of a mark around a compilation, followed by its number."""
FAILED = f"{PREFIX}failed"
"""The name of the mark that is made inside the mark of a copy that failed."""

annotate = RecordFunctionFast


class Mark(NamedTuple):
    line: SourceLine | None
    allowed: bool
    call: str | None = None
    """The called PyTorch function with what its arguments tell, as `rules.calls.describe` puts
    it."""


UNMARKED = Mark(None, False)


class Marks:
    """The marks of one recording, in all its threads: `debubble:n` is the n-th distinct mark.

    After `most_calls` calls the recording is full: it makes no more marks, and calls `when_full`
    once, in the thread that records.
    """

    def __init__(
        self, most_calls: int | None = None, when_full: Callable[[], object] = lambda: None
    ) -> None:
        self.is_over = False
        self.compilations: list[tuple[str, Mark]] = []
        """The kernels that were compiled, each with its line and, as its call, what was new."""
        self._marks: list[Mark] = []
        self._numbers: dict[Mark, int] = {}
        self._threads = {thread.native_id: name_of(thread) for thread in threading.enumerate()}
        self._recorder = threading.get_native_id()
        self._calls_left, self._when_full = most_calls, when_full

    @contextmanager
    def in_this_thread(self) -> Iterator[None]:
        """Marks the PyTorch calls that this thread makes in the block."""
        outer = getattr(_recording, "marks", None)
        if outer is self:
            yield
            return
        self._threads[threading.get_native_id()] = name_of(threading.current_thread())
        _recording.marks = self
        try:
            with _MarkedCalls(self):
                yield
        finally:
            _recording.marks = outer

    def here(self, call: str | None = None) -> AbstractContextManager[object]:
        if self.is_over or not self._has_room():
            return nullcontext()
        line = source_line(pytorch=True)
        mark = Mark(with_forward(line) if UNDER_WAY else line, HOST_SYNC.is_allowed(), call)
        if mark.line is None:
            return nullcontext()
        number = self._numbers.get(mark)
        if number is None:
            with _numbering:
                number = self._numbers.setdefault(mark, len(self._marks))
                if number == len(self._marks):
                    self._marks.append(mark)
        return annotate(f"{PREFIX}{number}")

    def compilation(self, name: str, missed: str) -> AbstractContextManager[object]:
        """Returns the mark around the compilation of a kernel for which `missed` was new."""
        line = Mark(source_line(), COMPILATION.is_allowed(), missed)
        self.compilations.append((name, line))
        return annotate(f"{COMPILE}{len(self.compilations) - 1}")

    def _has_room(self) -> bool:
        if self._calls_left is None:
            return True
        self._calls_left -= 1
        if self._calls_left < 0 and threading.get_native_id() == self._recorder:
            self.is_over = True
            self._when_full()
        return self._calls_left >= 0

    @property
    def is_full(self) -> bool:
        return self._calls_left is not None and self._calls_left < 0

    def mark(self, name: str) -> Mark:
        """Returns the mark that the annotation with this name stands for: `debubble:3` for the
        fourth mark."""
        number = name.removeprefix(PREFIX)
        return self._marks[int(number)] if number.isdigit() else UNMARKED

    def thread(self, native_id: int) -> str | None:
        """Returns the name of the thread with this native id, or None for the thread that
        records."""
        if native_id == self._recorder:
            return None
        return self._threads.get(native_id, ANOTHER)

    @property
    def recorder(self) -> int:
        return self._recorder


class _MarkedCalls(TorchFunctionMode):
    """The PyTorch mode that wraps each PyTorch call of one thread in an annotation of its line."""

    def __init__(self, marks: Marks) -> None:
        super().__init__()
        self.marks = marks

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if torch.compiler.is_compiling():  # Compiled code must contain only the learner's calls.
            return func(*args, **(kwargs or {}))
        before = next_node()
        with self.marks.here(describe(func, args, kwargs or {})):
            out = func(*args, **(kwargs or {}))
        if next_node() != before and not UNDER_WAY:
            note_forward(source_line(), since=before)
        return out


_recording = threading.local()
_numbering = threading.Lock()


_NO_MARK = nullcontext()


def marked() -> AbstractContextManager[object]:
    """Returns a context manager that marks the learner's line for a call that PyTorch's function
    mode doesn't see: synchronisation, graphs, Triton. It does nothing outside a recording."""
    marks = getattr(_recording, "marks", None)
    return marks.here() if marks else _NO_MARK


class marked_copy:
    """A context manager around a copy by the driver's own function, whose call Kineto leaves out.
    Its mark stands for that call, so it is made in every thread, and also for lines of debubble
    itself."""

    def __init__(self, function: str) -> None:
        self._line, self._call = marked(), annotate(f"{COPY}{function}")

    def __enter__(self) -> None:
        self._line.__enter__()
        self._call.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            with annotate(FAILED):
                pass
        self._call.__exit__(None, None, None)
        self._line.__exit__(None, None, None)


@contextmanager
def hooks_marked() -> Iterator[None]:
    """Marks the calls of the hooks that run in a backward pass begun in the block. PyTorch passes
    the modes that are on when a pass begins to the threads in which hooks run, but
    `Tensor.backward` begins the pass with this mode disabled."""
    marks = getattr(_recording, "marks", None)
    is_on = any(isinstance(mode, _MarkedCalls) for mode in get_current_function_mode_stack())
    with _MarkedCalls(marks) if marks and not is_on else nullcontext():
        yield
