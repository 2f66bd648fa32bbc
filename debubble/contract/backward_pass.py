"""Backward passes: PyTorch runs them in threads of its own, for a thread that waits meanwhile."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from .pytorch import need_pytorch
from .source_line import SourceLine, source_line

if TYPE_CHECKING:
    import torch
else:
    torch = need_pytorch(__name__)

KEY = "debubble: the backward pass"


class BackwardPass:
    """One call of `backward` or `autograd.grad`, as its caller left things."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.context: Context = copy_context()
        """The caller's."""
        self.outer = current()
        """The pass in whose thread this one was begun."""
        self.lost: BaseException | None = None
        """An error of Python's that PyTorch could not carry to the caller."""


def current() -> BackwardPass | None:
    """The pass that the running thread works for, or None."""
    return torch._C._get_obj_in_tls(KEY) if torch._C._is_key_in_tls(KEY) else None


def waiting_line() -> SourceLine | None:
    """The learner's line that waits for the gradients which this thread computes, if it does."""
    line, running = None, current()
    while line is None and running is not None:
        line, running = source_line(running.thread), running.outer
    return line


class _Engine(torch._C._ImperativeEngine):
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
            del lost, this  # else the error's traceback keeps what keeps the error


def _leave(this: BackwardPass) -> None:
    UNDER_WAY.discard(this)
    if this.outer is None and hasattr(torch._C, "_remove_obj_from_tls"):
        torch._C._remove_obj_from_tls(KEY)
    else:
        _stash(this.outer)


def _stash(kept: BackwardPass | None) -> None:
    """PyTorch hands it to the threads that it takes for what this thread begins."""
    if _STASHING_TAKES_A_REFERENCE:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    torch._C._stash_obj_in_tls(KEY, kept)


def _stashing_takes_a_reference() -> bool:
    """Whether what is stashed is released later without ever having been held, as by PyTorch 2.11:
    somebody else's object would be freed."""
    stashed = object()
    held = sys.getrefcount(stashed)
    torch._C._stash_obj_in_tls(KEY, stashed)
    taken = sys.getrefcount(stashed) == held
    for released in (stashed, None) if taken else ():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(released))
    torch._C._stash_obj_in_tls(KEY, None)
    return taken


_STASHING_TAKES_A_REFERENCE = _stashing_takes_a_reference()
AROUND: list[Callable[[], AbstractContextManager[object]]] = []
"""What a pass is begun inside of: modes of PyTorch's that are on there are on in its threads."""
UNDER_WAY: set[BackwardPass] = set()
"""In all threads: while there are none, nobody has to ask for the `current` one."""


def install(around: Callable[[], AbstractContextManager[object]] | None = None) -> None:
    """From now on threads in which gradients are computed know for whom, and each pass is begun
    inside `around()`."""
    if around is not None and around not in AROUND:
        AROUND.append(around)
    if not isinstance(torch.autograd.Variable._execution_engine, _Engine):
        torch.autograd.Variable._execution_engine = _Engine()


def learners_line() -> SourceLine | None:
    """Of this thread, or of the one that waits for the gradients which it computes; with the line
    whose gradients they are, if it was watched."""
    line = source_line() or waiting_line()
    return with_forward(line) if UNDER_WAY else line


def with_forward(line: SourceLine | None) -> SourceLine | None:
    running = current()
    if line is None or running is None:
        return line
    node = torch._C._current_autograd_node()
    if node is None:
        return line
    forward = _forwards.get((running.thread, node._sequence_nr()))
    return line if forward is None else line._replace(forward=forward)


def note_forward(line: SourceLine | None, since: int | None = None) -> None:
    """What is computed now, or since a number of `next_node`, is computed at this line: its
    gradient, if there will be one, is that line's."""
    if line is None or not torch.is_grad_enabled():
        return
    after, thread = next_node(), threading.get_ident()
    for number in range(max(after - MOST_NODES, after - 1 if since is None else since), after):
        _forwards[thread, number] = line
    while len(_forwards) > MOST_FORWARDS:
        _forwards.pop(next(iter(_forwards)), None)


next_node: Callable[[], int] = torch._C._autograd._get_sequence_nr
"""The number of the node that this thread will make next for a backward pass."""
_forwards: dict[tuple[int, int], SourceLine] = {}
"""By thread and number of the node."""
MOST_FORWARDS, MOST_NODES = 100_000, 64
"""That are kept, and that one call makes."""
