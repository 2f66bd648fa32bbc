"""Marks in a Kineto trace that say which of the learner's lines a stretch of host time belongs to.

Kineto's own stacks name a function and its first line. So every PyTorch call of a recorded block
is wrapped in an annotation whose number stands for the exact line.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..source_line import source_line
from ..timeline.event import SourceLine

PREFIX = "debubble:"
BEGIN, END = f"{PREFIX}begin", f"{PREFIX}end"

annotate = torch._C._profiler._RecordFunctionFast


class Marks(TorchFunctionMode):
    """Numbers the lines it meets; `lines[n]` is what the annotation `debubble:n` stands for."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[SourceLine] = []
        self._numbers: dict[SourceLine, int] = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        with self.here():
            return func(*args, **(kwargs or {}))

    def __enter__(self) -> Marks:
        self._outer = getattr(_recording, "marks", None)
        _recording.marks = self
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        _recording.marks = self._outer
        super().__exit__(*exception)

    def here(self) -> Any:
        line = source_line()
        if line is None:
            return nullcontext()
        number = self._numbers.get(line)
        if number is None:
            number = self._numbers[line] = len(self.lines)
            self.lines.append(line)
        return annotate(f"{PREFIX}{number}")

    def line(self, name: str) -> SourceLine | None:
        number = name.removeprefix(PREFIX)
        return self.lines[int(number)] if number.isdigit() else None


_recording = threading.local()


@contextmanager
def marked() -> Iterator[None]:
    """For calls that PyTorch's function mode doesn't see: synchronisation, graphs, Triton."""
    marks = getattr(_recording, "marks", None)
    with marks.here() if marks else nullcontext():
        yield
