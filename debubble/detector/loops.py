"""Notes the passes of a script's loops during a recording, to tell set-up from steps."""

from __future__ import annotations

import ast
import builtins
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import SourceFileLoader
from itertools import pairwise
from statistics import median
from types import CodeType
from typing import NamedTuple

from ..contract.python.follow import patched
from ..contract.source_line import SourceLine, whose_is
from ..timeline.data import TimelineData
from ..timeline.holds import find_holds

NOTE = "__debubble_pass__"
"""The name of the function that the compiled loops call."""
MOST_PASSES = 100_000
"""The most passes of one loop whose times are stored."""
Loop = ast.For | ast.AsyncFor | ast.While
COMPILES = ("jit", "compile", "script", "kernel", "numba", "triton", "cuda")
"""Words in decorators of functions that Python may not run itself. Their loops are left unchanged.
"""


class Steps(NamedTuple):
    """The steps of a run: the passes of the loop at `line` after its first `skip` passes. Set-up
    ends at `until` microseconds, and the loop ended for the last time at `ended`. All are None if
    no loop has enough passes. `every` are the times of the passes of all loops that have enough.
    `others` are those of loops that do as much in a pass, such as the training before a longer
    evaluation."""

    skip: int
    line: SourceLine | None = None
    until: float | None = None
    others: tuple[list[float], ...] = ()
    ended: float | None = None
    every: tuple[list[float], ...] = ()

    def are_setup(self, times: list[float]) -> bool:
        """Returns True if a call at these times is set-up: all lie before the steps, and no other
        loop reached it in more than `skip` passes."""
        before = self.until is not None and max(times) < self.until
        return before and self._in_few_passes(times, self.others)

    def are_after(self, times: list[float]) -> bool:
        """Returns True if a call at these times comes after the last step: the loop has ended, and
        no loop reached the call in more than `skip` passes."""
        after = self.ended is not None and min(times) >= self.ended
        return after and self._in_few_passes(times, self.every)

    def _in_few_passes(self, times: list[float], loops: Iterable[list[float]]) -> bool:
        reached = ({bisect_right(passes, time) for time in times} - {0} for passes in loops)
        return all(len(passes) <= self.skip for passes in reached)


class Loops:
    """A compiler whose code notes the time of each pass of a `for` or `while`.

    `elapsed()` is the recording's clock in microseconds, or None outside a recording. Passes in
    threads other than the one that created this object are not noted."""

    def __init__(self, elapsed: Callable[[], float | None], skip: int = 1) -> None:
        self.skip = skip
        self.main = ""
        """The file of the script."""
        self._elapsed = elapsed
        self._compiling: Callable[[], bool] = lambda: False
        self._thread = threading.get_ident()
        self._lines: list[SourceLine] = []
        self._passes: list[array[float]] = []
        self._ends: list[float] = []
        """The time at which each loop ended last, or 0."""

    def compile(self, source: bytes | str, file: str) -> CodeType:
        """Returns the compiled code with its loops noted. Raises what Python's `compile` raises."""
        tree = ast.parse(source, file)
        for block, loop in [*_loops_of(tree)]:
            self._lines.append(SourceLine(file, loop.lineno, "<loop>"))
            self._passes.append(array("d"))
            self._ends.append(0.0)
            loop.body.insert(0, self._noting(loop.body[0], ended=False))
            block.insert(block.index(loop) + 1, self._noting(loop, ended=True))
        return compile(tree, file, "exec", dont_inherit=True)

    def _noting(self, place: ast.stmt, *, ended: bool) -> ast.stmt:
        about: list[ast.expr] = [ast.Constant(len(self._lines) - 1), ast.Constant(ended)]
        call = ast.Call(ast.Name(NOTE, ast.Load()), about, keywords=[])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), place))

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Notes passes in the block, and compiles the user's own modules that are imported in it.
        After the block the compiled code stays in use, and its passes are ignored."""

        def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
            file = loader.get_filename(name)
            if whose_is(file) != "the user's":
                return read(loader, name)
            try:
                code = self.compile(loader.get_data(file), file)
            except (SyntaxError, ValueError, RecursionError, OSError):
                return read(loader, name)
            return code

        self._compiling = import_module("torch.compiler").is_compiling
        read = SourceFileLoader.get_code
        setattr(builtins, NOTE, self._note)
        try:
            with patched(SourceFileLoader, "get_code", get_code):
                yield
        finally:
            setattr(builtins, NOTE, _ignore)

    def _note(self, number: int, ended: bool) -> None:
        if self._compiling() or threading.get_ident() != self._thread:
            return
        now = self._elapsed()
        if now is not None and ended:
            self._ends[number] = now
        elif now is not None and len(self._passes[number]) < MOST_PASSES:
            self._passes[number].append(now)

    def steps(self, timeline: TimelineData, to_the_end: bool = False) -> Steps:
        """Returns the steps of a recording. Chooses the script's loop with the most passes that
        used the device before the last wait, or else such a loop of an imported module. With
        `to_the_end` all passes count."""
        calls = sorted(event.start for event in timeline.events if not event.on_device)
        last = max((hold.last.start for hold in find_holds(timeline.events)), default=None)
        if to_the_end:
            last = max(calls, default=None)
        if last is None or not self.skip:
            return Steps(self.skip)
        loops: list[tuple[SourceLine, list[float], float]] = []
        for line, passes, end in zip(self._lines, self._passes, self._ends, strict=True):
            used = _apart(calls, (time for time in passes if time <= last))
            if len(used) > self.skip:
                loops.append((line, used, end))
        if not loops:
            return Steps(self.skip)
        line, used, end = max(loops, key=lambda loop: (loop[0].file == self.main, len(loop[1])))
        every = tuple(passes for _, passes, _ in loops)
        as_much = _calls_a_pass(calls, used)
        others = tuple(
            other for other in every if other is not used and _calls_a_pass(calls, other) >= as_much
        )
        ended = end if end > used[-1] else None
        return Steps(self.skip, line, used[self.skip], others, ended, every)


def _loops_of(tree: ast.AST) -> Iterator[tuple[list[ast.stmt], Loop]]:
    """Yields the loops, each with the block of statements that it is part of. Outer loops come
    before inner ones, because the first of two loops with the same number of passes is chosen."""
    for node in ast.iter_child_nodes(tree):
        decorators = getattr(node, "decorator_list", [])
        if any(word in ast.unparse(one).lower() for one in decorators for word in COMPILES):
            continue
        if isinstance(node, Loop):
            fields = (value for _, value in ast.iter_fields(tree))
            yield next(each for each in fields if isinstance(each, list) and node in each), node
        yield from _loops_of(node)


def _apart(calls: list[float], passes: Iterable[float]) -> list[float]:
    """Returns the times of passes that used the device: of passes with no call between them, only
    the last."""
    by_calls = {bisect_left(calls, time): time for time in passes}
    return [*by_calls.values()]


def _calls_a_pass(calls: list[float], passes: list[float]) -> float:
    """Returns the median number of calls between one pass and the next."""
    reached = [bisect_left(calls, time) for time in passes]
    return median(after - before for before, after in pairwise(reached))


def _ignore(number: int, ended: bool) -> None:
    """Ignores a pass after the recording."""
