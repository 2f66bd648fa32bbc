"""Disables PyTorch's modes for a block: the guard's, the recorder's, and the caller's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from debubble.private import torch as private


@contextmanager
def without_modes() -> Iterator[None]:
    """Disables all PyTorch modes of this thread in the block, in which a compiled function is
    called.

    A compiled function is made for the modes that are on: under another stack of modes it is
    compiled again, with their work inside, or refused. So a recording would compile again the code
    that it measures.
    """
    if not (private.len_torch_dispatch_stack() or private.len_torch_function_stack()):
        yield
        return
    with ExitStack() as stack:
        if private.len_torch_dispatch_stack():
            stack.enter_context(private.disable_current_modes())
        for _ in range(private.len_torch_function_stack()):
            stack.callback(private.push_mode, private.pop_mode())
        yield
