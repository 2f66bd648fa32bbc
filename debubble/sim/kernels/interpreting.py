"""One run of a kernel in Triton's interpreter, which gets ready once and not for every call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from debubble.contract.triton_mode import unwrapped

from .illegal_access import check_addresses


@contextmanager
def ready_once(kernel: Any) -> Iterator[None]:
    """In the block each function that the kernel calls prepares `triton.language` once.

    The interpreter does so for each call anew, `tl.sum` and `tl.zeros` being such functions: it
    looks through all of the language for what has stayed replaced since the first call, and so
    spends a third of a kernel's time. A kernel that it does not run is left alone.
    """
    if not _is_interpreted(kernel):
        yield
        return
    interpreted: Any = type(unwrapped(kernel))
    look_up_once()
    choose_first_config()
    check_addresses()
    as_it_was = interpreted.__call__
    interpreted.__call__ = _calling(as_it_was)
    try:
        yield
    finally:
        interpreted.__call__ = as_it_was


@contextmanager
def asserting(kernel: Any, name: str) -> Iterator[None]:
    """In the block a kernel's own `tl.device_assert` is asked, as on a GPU where TRITON_DEBUG is 1:
    RuntimeError with the kernel's name and the assertion's text where one does not hold."""
    if not _is_interpreted(kernel):
        yield
        return
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    as_it_was = builder.options
    # What else Triton looks at then, each sum of integers for an overflow, takes too long.
    builder.options = replace(as_it_was, debug=True, sanitize_overflow=False)
    try:
        yield
    except interpreter.InterpreterError as error:
        cause: BaseException | None = error
        while isinstance(cause, interpreter.InterpreterError):
            cause = cause.__cause__
        if not isinstance(cause, AssertionError):
            raise
        raise RuntimeError(f"{name}: {cause}") from None
    finally:
        builder.options = as_it_was


def _is_interpreted(kernel: Any) -> bool:
    return type(unwrapped(kernel)).__name__ == "InterpretedFunction"


@cache
def look_up_once() -> None:
    """From now on the interpreter finds once what it looks for in each launch, which is a seventh
    of its time: the built-in functions of the language, and NumPy's type for each of Triton's. A
    version of Triton that has no functions of these names is left as it is."""
    from triton.language.core import is_builtin
    from triton.runtime import interpreter

    if not {"_get_np_dtype", "_patch_attr", "_patch_builtin"} <= vars(interpreter).keys():
        return

    @cache
    def builtins_of(package: Any) -> list[tuple[str, Any]]:
        return [found for found in inspect.getmembers(package) if is_builtin(found[1])]

    def patch_builtin(package: Any, *builder_and_scope: Any) -> None:
        for name, member in builtins_of(package):
            interpreter._patch_attr(package, name, member, *builder_and_scope)

    find_type, types = interpreter._get_np_dtype, {}

    def numpy_type(triton_type: Any) -> Any:
        name = triton_type.scalar.name
        if name not in types:
            types[name] = find_type(triton_type)
        return types[name]

    interpreter._patch_builtin, interpreter._get_np_dtype = patch_builtin, numpy_type


@cache
def choose_first_config() -> None:
    """From now on `@triton.autotune` chooses the first configuration that its pruning leaves,
    since there is no GPU to time them on."""
    from triton.runtime.autotuner import Autotuner

    def untimed(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        return [0.0, 0.0, 0.0]

    Autotuner._bench = untimed


def _calling(prepare_and_call: Callable[..., Any]) -> Callable[..., Any]:
    ready = set()

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if function.fn in ready:
            return function.rewrite()(*args, **kwargs)
        ready.add(function.fn)
        return prepare_and_call(function, *args, **kwargs)

    return call
