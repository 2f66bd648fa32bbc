"""One run of a kernel in Triton's interpreter, which gets ready once and not for every call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from debubble.contract.triton_mode import WRAPPERS


@contextmanager
def ready_once(kernel: Any) -> Iterator[None]:
    """In the block each function that the kernel calls prepares `triton.language` once.

    The interpreter does so for each call anew, `tl.sum` and `tl.zeros` being such functions: it
    looks through all of the language for what has stayed replaced since the first call, and so
    spends a third of a kernel's time. A kernel that it does not run is left alone.
    """
    while type(kernel).__name__ in WRAPPERS:
        kernel = kernel.fn
    interpreted = type(kernel)
    if interpreted.__name__ != "InterpretedFunction":
        yield
        return
    as_it_was = interpreted.__call__
    interpreted.__call__ = _calling(as_it_was)
    try:
        yield
    finally:
        interpreted.__call__ = as_it_was


def _calling(prepare_and_call: Callable[..., Any]) -> Callable[..., Any]:
    ready = set()

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if function.fn in ready:
            return function.rewrite()(*args, **kwargs)
        ready.add(function.fn)
        return prepare_and_call(function, *args, **kwargs)

    return call
