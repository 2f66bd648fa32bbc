"""Disables PyTorch's modes for a block: the guard's, the recorder's, and the caller's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from debubble.private.torch import (
    disable_current_modes,
    len_torch_dispatch_stack,
    len_torch_function_stack,
    pop_mode,
    push_mode,
)


@contextmanager
def without_modes() -> Iterator[None]:
    """Disables all PyTorch modes of this thread in the block, in which a compiled function is
    called.

    A compiled function is made for the modes that are on: under another stack of modes it is
    compiled again, with their work inside, or refused. So a recording would compile again the code
    that it measures.
    """
    if not (len_torch_dispatch_stack() or len_torch_function_stack()):
        yield
        return
    with ExitStack() as stack:
        if len_torch_dispatch_stack():
            stack.enter_context(disable_current_modes())
        for _ in range(len_torch_function_stack()):
            stack.callback(push_mode, pop_mode())
        yield
