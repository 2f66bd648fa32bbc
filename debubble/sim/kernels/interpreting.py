"""Replaces parts of Triton's interpreter, once in each process. A run leaves nothing to restore,
even if Ctrl-C ends it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import cache, wraps
from typing import Any

import numpy as np

from debubble.contract.packages.triton_mode import unwrapped
from debubble.contract.source_line import source_line

from ..memory.illegal_access import IllegalMemoryAccess
from .illegal_access import Checked, Running, ranges_of, running
from .shared_types import share_types

is_launch: ContextVar[bool] = ContextVar("a launch on sim runs now", default=False)


def run_kernel(kernel: Any, grid: tuple[int, ...], args: tuple, meta: dict[str, Any]) -> None:
    """Runs a kernel that is launched on sim, on CPU data, and checks its `tl.device_assert`, as a
    GPU does if TRITON_DEBUG is 1.

    Raises RuntimeError with the kernel's name and the assertion's text if the assertion fails.
    """
    interpreted: Any = type(unwrapped(kernel))
    if interpreted.__name__ == "InterpretedFunction":
        look_up_once()
        share_types()
        choose_first_config()
        check_runs()
        prepare_once(interpreted)

    def run_launched() -> None:
        is_launch.set(True)
        kernel[grid](*args, **meta)

    copy_context().run(run_launched)


class _InterpreterOptions:
    """Options of Triton's interpreter that check `tl.device_assert` in a launch on sim, but not in
    a direct call of a kernel."""

    def __init__(self, options: Any) -> None:
        # With debug alone Triton also checks each integer sum for overflow, which is too slow.
        self._of_launch = replace(options, debug=True, sanitize_overflow=False)
        self._options = options

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of_launch if is_launch.get() else self._options, name)


@cache
def check_runs() -> None:
    """Makes each kernel interpreted from now on raise IllegalMemoryAccess if it reads or writes
    outside its arguments' memory, device memory and pinned memory.

    A float that overflows becomes infinite, without a warning. Changes nothing in a version of
    Triton that lacks the functions replaced here."""
    from triton.runtime import interpreter

    from debubble.private import triton as private

    if not private.interpreter:
        return
    run_grid: Any = interpreter.GridExecutor.__call__

    def run_now(executor: Any, args: tuple, meta: dict[str, Any]) -> Any:
        name, ranges = executor.fn.__name__, sorted(set(ranges_of((*args, *meta.values()))))
        running.set(Running(name, ranges, source_line(), ready=set()))
        try:
            with np.errstate(all="ignore"):
                return run_grid(executor, *args, **meta)
        except interpreter.InterpreterError as error:
            cause: BaseException | None = error
            while isinstance(cause, interpreter.InterpreterError):
                cause = cause.__cause__
            if isinstance(cause, IllegalMemoryAccess):
                raise cause from None
            if isinstance(cause, AssertionError) and is_launch.get():
                raise RuntimeError(f"{name}: {cause}") from None
            raise

    @wraps(run_grid)
    def run_in_its_own_context(executor: Any, *args: Any, **meta: Any) -> Any:
        """Runs the kernel in a context of its own, so that the variables it sets end with the run,
        even if Ctrl-C interrupts it."""
        return copy_context().run(run_now, executor, args, meta)

    to_host, from_host = private.init_args_hst.value, private.restore_args_dev.value

    @wraps(to_host)
    def arguments(executor: Any, args: tuple, meta: dict[str, Any]) -> Any:
        """Returns the arguments of a launch on sim as they are: they are CPU data already, and
        copying them back would write to all of it."""
        return (args, meta) if is_launch.get() else to_host(executor, args, meta)

    @wraps(from_host)
    def restore(executor: Any, args: tuple, on_host: Any, meta: dict, meta_on_host: dict) -> None:
        if args is not on_host:
            from_host(executor, args, on_host, meta, meta_on_host)

    # If Ctrl-C hits one of these lines, all of them run again.
    builder = interpreter.interpreter_builder
    if not isinstance(builder.options, _InterpreterOptions):
        builder.options = _InterpreterOptions(builder.options)
    if not isinstance(private.interpreter.value, Checked):
        private.interpreter.value = Checked(private.interpreter.value)
    if not hasattr(run_grid, "__wrapped__"):
        private.init_args_hst.value = arguments
        private.restore_args_dev.value = restore
        interpreter.GridExecutor.__call__ = run_in_its_own_context


@cache
def prepare_once(interpreted: Any) -> None:
    """Makes each function that a kernel calls prepare `triton.language` once in each run.

    The interpreter prepares it at every call, of `tl.sum` and `tl.zeros` too: it searches the whole
    language for functions to replace, which takes a third of a kernel's time.
    """
    prepare_and_call = interpreted.__call__
    if hasattr(prepare_and_call, "__wrapped__"):
        return

    @wraps(prepare_and_call)
    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        kernel = running.get()
        if kernel is None:
            return prepare_and_call(function, *args, **kwargs)
        if function.fn in kernel.ready:
            return function.rewrite()(*args, **kwargs)
        kernel.ready.add(function.fn)
        return prepare_and_call(function, *args, **kwargs)

    interpreted.__call__ = call


@cache
def look_up_once() -> None:
    """Makes the interpreter look up the language's built-in functions and what replaces them, and
    the NumPy type of each Triton type, once in each process. In a run it replaces the functions of
    a module once, and not again for each function of the kernel that sees the module.

    Changes nothing in a version of Triton that lacks the functions replaced here."""
    from triton.language.core import is_builtin

    from debubble.private import triton as private

    if not (private.get_np_dtype and private.patch_attr and private.patch_builtin):
        return

    @cache
    def replacements_of(package: Any, builder: Any) -> list[tuple[str, Any]]:
        """Returns what the interpreter puts in the place of the package's built-in functions."""
        collected = _Replacements()
        for name, member in inspect.getmembers(package):
            if is_builtin(member):
                private.patch_attr(package, name, member, builder, collected)
        return collected.found

    def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
        replacements = replacements_of(package, builder)
        # A scope replaces the last name last and restores it first: while it is replaced, all are.
        if replacements and getattr(package, replacements[-1][0]) is replacements[-1][1]:
            return
        for name, replacement in replacements:
            scope.set_attr(package, name, replacement)

    find_type, types = private.get_np_dtype.value, {}

    def numpy_type(triton_type: Any) -> Any:
        name = triton_type.scalar.name
        if name not in types:
            types[name] = find_type(triton_type)
        return types[name]

    private.patch_builtin.value, private.get_np_dtype.value = patch_builtin, numpy_type
    if private.implicit_cvt:
        private.implicit_cvt.value = _floats_in_fp32(private.implicit_cvt.value)


class _Replacements:
    """Collects what the interpreter would replace, instead of replacing it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Any]] = []

    def set_attr(self, package: object, name: str, value: object) -> None:
        self.found.append((name, value))


def _floats_in_fp32(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a version of `convert` that makes a kernel's float argument an fp32 scalar, as on a
    GPU."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def converted(arg: Any) -> Any:
        if type(arg) is not float:
            return convert(arg)
        with np.errstate(over="ignore"):
            return tl.tensor(TensorHandle(np.array([arg], np.float32), tl.float32), tl.float32)

    return converted


@cache
def choose_first_config() -> None:
    """Makes `@triton.autotune` choose the first configuration that its pruning leaves, because
    there is no GPU to time them on."""
    from debubble.private.triton import bench

    def untimed(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        return [0.0, 0.0, 0.0]

    bench.value = untimed
