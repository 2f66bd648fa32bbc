"""Backward passes: PyTorch runs them in threads of its own while the calling thread waits."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from ..private import torch as private
from .packages.pytorch import need_pytorch
from .source_line import SourceLine, source_line

if TYPE_CHECKING:
    import torch
else:
    torch = need_pytorch(__name__)

KEY = "debubble: the backward pass"


class BackwardPass:
    """One call of `backward` or `autograd.grad` in flight, with the thread and context of its
    caller."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.context: Context = copy_context()
        """The caller's context variables, copied when the pass begins."""
        self.outer = running_pass()
        """The backward pass in whose thread this pass was begun, or None."""
        self.lost: BaseException | None = None
        """A Python error that PyTorch could not pass on to the caller."""


def running_pass() -> BackwardPass | None:
    """Returns the innermost backward pass for which the running thread computes gradients, or
    None."""
    return private.get_obj_in_tls(KEY) if private.is_key_in_tls(KEY) else None


def waiting_line() -> SourceLine | None:
    """Returns the learner's line that called `backward` and waits while this thread computes
    gradients for it, or None."""
    line, running = None, running_pass()
    while line is None and running is not None:
        line, running = source_line(running.thread), running.outer
    return line


class _Engine(private.ImperativeEngine):
    def run_backward(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        this = BackwardPass()
        UNDER_WAY.add(this)
        _stash(this)
        try:
            with ExitStack() as stack:
                for enter in AROUND:
                    stack.enter_context(enter())
                return super().run_backward(*args, **kwargs)
        except SystemError:
            if this.lost is None:
                raise
        finally:
            _leave(this)
        lost = this.lost
        try:
            raise lost
        finally:
            del lost, this  # The error and its traceback would keep each other alive.


def _leave(this: BackwardPass) -> None:
    UNDER_WAY.discard(this)
    if this.outer is None and private.remove_obj_from_tls:
        private.remove_obj_from_tls(KEY)
    else:
        _stash(this.outer)


def _stash(kept: BackwardPass | None) -> None:
    """Makes the pass the current one of this thread, and of PyTorch's threads that work for it."""
    if _STASHING_TAKES_A_REFERENCE:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    private.stash_obj_in_tls(KEY, kept)


def _stashing_takes_a_reference() -> bool:
    """Returns True if PyTorch takes over the caller's reference to a stashed object, as PyTorch
    2.11 does: when it releases that reference it would free an object that others still use."""
    stashed = object()
    held = sys.getrefcount(stashed)
    private.stash_obj_in_tls(KEY, stashed)
    taken = sys.getrefcount(stashed) == held
    for released in (stashed, None) if taken else ():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(released))
    private.stash_obj_in_tls(KEY, None)
    return taken


_STASHING_TAKES_A_REFERENCE = _stashing_takes_a_reference()
AROUND: list[Callable[[], AbstractContextManager[object]]] = []
"""Functions that make context managers, which each backward pass enters when it begins: PyTorch
modes that they enter also apply in the threads of the pass."""
UNDER_WAY: set[BackwardPass] = set()
"""The backward passes in flight in all threads: while there are none, code can skip looking up the
`running_pass`."""


def install(around: Callable[[], AbstractContextManager[object]] | None = None) -> None:
    """Replaces PyTorch's autograd engine, so that threads that compute gradients know their
    backward pass and each pass begins inside `around()`."""
    if around is not None and around not in AROUND:
        AROUND.append(around)
    if not isinstance(private.execution_engine.value, _Engine):
        private.execution_engine.value = _Engine()


def learners_line() -> SourceLine | None:
    """Returns the learner's line that this thread runs, or that waits for the gradients this thread
    computes; with the forward line whose gradients these are, if that was recorded."""
    line = source_line() or waiting_line()
    return with_forward(line) if UNDER_WAY else line


def with_forward(line: SourceLine | None) -> SourceLine | None:
    running = running_pass()
    if line is None or running is None:
        return line
    node = private.current_autograd_node()
    if node is None:
        return line
    forward = _forwards.get((running.thread, private.sequence_nr(node)()))
    return line if forward is None else line._replace(forward=forward)


def note_forward(line: SourceLine | None, since: int | None = None) -> None:
    """Records that this line has made the autograd nodes from number `since` of `next_node` on (by
    default the last node): their gradients, if computed, belong to the line."""
    if line is None or not torch.is_grad_enabled():
        return
    after, thread = next_node(), threading.get_ident()
    for number in range(max(after - MOST_NODES, after - 1 if since is None else since), after):
        _forwards[thread, number] = line
    while len(_forwards) > MOST_FORWARDS:
        _forwards.pop(next(iter(_forwards)), None)


next_node: Callable[[], int] = private.get_sequence_nr
"""Returns the number that this thread's next autograd node will get."""
_forwards: dict[tuple[int, int], SourceLine] = {}
"""The line of the forward pass that made each autograd node, by the thread and the number of the
node."""
MOST_FORWARDS, MOST_NODES = 100_000, 64
"""The largest number of forward lines that are stored, and of nodes that are recorded for one
call."""
