"""The mode in which this process runs Triton kernels, compiled or interpreted, and its errors."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Callable, Collection
from functools import partialmethod
from importlib.metadata import version
from importlib.util import find_spec
from inspect import isfunction
from typing import NoReturn

VARIABLE = "TRITON_INTERPRET"
MADE_FOR = {"JITFunction": "cuda", "InterpretedFunction": "sim"}
"""The accelerator that a kernel was made for, by the name of its class: looking it up by name works
without Triton."""
NUMPY_TOO_NEW = "2.4"
"""The first numpy version in which an array of one element doesn't convert to a number, as Triton
before 3.7 expects."""
WRAPPERS = {"Autotuner", "Heuristics"}


def interpret_triton() -> None:
    """Makes `@triton.jit` return kernels that run on the CPU: sets TRITON_INTERPRET."""
    os.environ[VARIABLE] = "1"


def interpret_what_was_made() -> None:
    """Turns all kernels that were already made for a GPU, Triton's own library among them, into
    kernels that run on the CPU. They exist if a library such as transformers has imported Triton
    before debubble."""
    if "triton.runtime.jit" not in sys.modules:
        return
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    if type(tl.cdiv) is not JITFunction:
        return  # Triton was set for sim when it was imported.
    # Modules, classes and other kernels refer to these objects, so each keeps its identity. Python
    # lets an object change its class to a subclass.
    behaves = {
        name: value
        for name, value in vars(InterpretedFunction).items()
        if isfunction(value) or name in ("rewritten_fn", "__name__")
    }
    interpreted = type("InterpretedFunction", (JITFunction,), behaves)
    for kernel in gc.get_objects():
        if type(kernel) is JITFunction:
            function = kernel.fn
            vars(kernel).clear()
            kernel.__class__ = interpreted
            kernel.__init__(function)
    for name, method in list(vars(tl.tensor).items()):
        if type(method) is interpreted:
            setattr(tl.tensor, name, partialmethod(method))


def compile_triton() -> None:
    """Makes `@triton.jit` return kernels that run on the GPU: removes TRITON_INTERPRET."""
    os.environ.pop(VARIABLE, None)


def is_interpreted() -> bool:
    return os.environ.get(VARIABLE) == "1"


def check_launch(kernel: object, grid: tuple[int, ...] | None, accelerator: str) -> None:
    """Checks that `kernel` can be launched with `grid`.

    Raises TypeError for a plain function with a grid, a Triton kernel without one and a grid of
    another form, ValueError for a negative number in the grid, and RuntimeError for a kernel that
    was decorated for the other accelerator, or for any grid if Triton is not installed.
    """
    made_for = MADE_FOR.get(type(unwrapped(kernel)).__name__)
    if grid is None and (made_for or not callable(kernel)):
        shown = f"kernel {name_of(kernel)}" if made_for else repr(kernel)
        raise TypeError(f"{shown} can't be launched so: give a Triton kernel and a grid")
    if grid is not None and not hasattr(kernel, "__getitem__"):
        name = getattr(kernel, "__name__", repr(kernel))
        if not is_there():
            raise RuntimeError(missing_triton(f"the launch of {name} with a grid"))
        raise TypeError(
            f"{name} is no Triton kernel, so it takes no grid: decorate it with @triton.jit, or "
            "launch it with None for a grid"
        )
    if made_for not in (None, accelerator):
        _refuse(kernel, accelerator)
    if grid is not None:
        _check_grid(kernel, grid)


def _check_grid(kernel: object, grid: object) -> None:
    """Raises TypeError for a grid that is no tuple of 1 to 3 integers, and ValueError for a
    negative number in it. Triton also takes functions as grids, debubble doesn't."""
    if not isinstance(grid, tuple) or not 1 <= len(grid) <= 3 or not all(map(_is_integer, grid)):
        raise TypeError(
            f"the grid of kernel {name_of(kernel)} is a tuple of 1 to 3 integers, not {grid!r}"
        )
    if any([type(number) is int and number < 0 for number in grid]):
        raise ValueError(f"the grid {grid} of kernel {name_of(kernel)} has a number below 0")


def _is_integer(number: object) -> bool:
    return type(number) is int or (hasattr(number, "__index__") and type(number) is not bool)


def _refuse(kernel: object, accelerator: str) -> None:
    name = name_of(kernel)
    if accelerator == "sim":
        raise RuntimeError(
            f"kernel {name} was made for a GPU, and this process runs on sim: import debubble "
            f"before the module that defines it, or set {VARIABLE}=1 before Python starts"
        )
    raise RuntimeError(
        f"kernel {name} was made for the CPU, and this process runs on CUDA: unset {VARIABLE}, and "
        "choose the accelerator before importing the module that defines it"
    )


def explain(error: Exception, kernel: object) -> None:
    """Raises RuntimeError that explains `error`, if it is one of two that Triton's interpreter
    raises for a kernel that it can't run; otherwise returns.

    The interpreter can't call a function that was made for a GPU, as Triton's own library is if
    Triton was imported too early. With a newer numpy it can't loop to a bound that the kernel
    computes.
    """
    if "only 0-dimensional arrays can be converted" in str(error):
        raise RuntimeError(
            f"kernel {name_of(kernel)} can't be interpreted here: Triton {version('triton')} "
            f"needs numpy < {NUMPY_TOO_NEW} for that, and this is numpy {version('numpy')}"
        ) from error
    if "Cannot call @triton.jit'd outside" in str(error):
        raise RuntimeError(
            f"kernel {name_of(kernel)} calls a function that was made for a GPU, and this "
            "process runs on sim: import debubble before triton, and before the module that "
            f"defines that function, or set {VARIABLE}=1 before Python starts"
        ) from error


def unwrapped(kernel: object) -> object:
    """Returns a Triton kernel without its `autotune` and `heuristics` decorators; anything else as
    it is."""
    while type(kernel).__name__ in WRAPPERS:
        kernel = getattr(kernel, "fn", None)
    return kernel


def name_of(kernel: object) -> str:
    """Returns the name of a function, or of the function that a Triton kernel was made of; "kernel"
    if it has none."""
    inside = unwrapped(kernel)
    return getattr(getattr(inside, "fn", inside), "__name__", "kernel")


def is_there() -> bool:
    return find_spec("triton") is not None


def missing_triton(what: str) -> str:
    """Returns the text of the error that `what` needs Triton, which is not installed, with the way
    out."""
    system = platform.system()
    way_out = (
        "`pip install triton` brings it"
        if system == "Linux"
        else "kernels need Linux, in a container, in WSL 2 or on another host"
    )
    return (
        f"{what} needs Triton, which is not installed here ({system}). Without it chapter 00, the "
        f"katas, timelines and sim work; {way_out}"
    )


def refusing_without_triton(package: str, names: Collection[str]) -> Callable[[str], NoReturn]:
    """Returns the `__getattr__` of a package that exports `names`, some of which are missing
    without Triton. It raises ImportError, with the way to get Triton, for one of them, and
    AttributeError for any other name, so the package's other parts can be imported."""

    def refuse(name: str) -> NoReturn:
        if name in names:
            raise ImportError(missing_triton(f"{package}.{name}"))
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return refuse
