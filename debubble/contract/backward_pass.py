"""Backward passes: PyTorch runs them in threads of its own, for a thread that waits meanwhile."""

from __future__ import annotations

import threading
from contextvars import Context, copy_context
from typing import Any

import torch

from .source_line import SourceLine, source_line

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
        torch._C._stash_obj_in_tls(KEY, this)
        try:
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
        torch._C._stash_obj_in_tls(KEY, this.outer)


UNDER_WAY: set[BackwardPass] = set()
"""In all threads: while there are none, nobody has to ask for the `current` one."""


def install() -> None:
    """From now on threads in which gradients are computed know for whom."""
    if not isinstance(torch.autograd.Variable._execution_engine, _Engine):
        torch.autograd.Variable._execution_engine = _Engine()
