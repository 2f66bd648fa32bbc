"""Runs `torch.compile` and Triton's `kernel[grid](...)` on sim for code that says "cuda"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from inspect import isfunction, signature
from types import MappingProxyType
from typing import Any

import torch

from debubble.contract.packages.triton_mode import is_there
from debubble.contract.protocol import Accelerator
from debubble.rules.guards import Guards

from ..clock.beside_calls import BesideCalls
from ..kernels.interpreting import choose_first_config
from ..memory.tape import flat_tensors
from ..tensor import SimTensor
from . import triton_driver
from .refusing import say_once
from .replacing import in_place_of, replaced

COMPILE = (
    "torch.compile compiles nothing on sim: the code runs eagerly, as it is written, with the same "
    "copies and waits, and with a kernel for each operator"
)
Launch = Callable[..., Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def compiler(beside: BesideCalls) -> Callable[..., Any]:
    """Returns the replacement for `torch.compile`, which counts compilations in `beside`."""

    def compile(model: Any = None, *, dynamic: bool | None = None, **options: Any) -> Any:
        """Returns a function that counts what a GPU's compiler would compile, and runs as it is
        written; of a module, the module with such a hook. Returns a decorator if `model` is None.
        Warns once that nothing is compiled."""
        say_once(COMPILE)
        if model is None:
            return lambda function: compile(function, dynamic=dynamic, **options)
        if isinstance(model, torch.nn.Module):
            model.register_forward_pre_hook(CountedCalls(model.forward, beside, dynamic))
            return model
        return counted(model, beside, dynamic) if isfunction(model) else model

    return compile


def counted(function: Callable[..., Any], beside: BesideCalls, dynamic: bool | None) -> Any:
    counts = CountedCalls(function, beside, dynamic)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        counts(None, args, kwargs)
        token = _inside.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            _inside.reset(token)

    return call


_inside: ContextVar[bool] = ContextVar("inside a compiled function", default=False)
"""True inside a compiled function, which has other compiled functions in it compiled as well."""


class CountedCalls:
    """A forward hook that counts the compilations of a function or a module."""

    def __init__(self, function: Any, beside: BesideCalls, dynamic: bool | None) -> None:
        owner = getattr(function, "__self__", None)
        self._guards = Guards(function if owner is None else owner, dynamic)
        self._names = [*signature(function).parameters]
        self._beside = beside

    def __deepcopy__(self, memo: dict[int, Any]) -> CountedCalls:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _counts_nothing, ()

    def __call__(self, module: Any, args: tuple, kwargs: Mapping[str, Any] = NOTHING) -> None:
        if _inside.get():
            return
        known = self._beside.compiled.keys_of(self)
        key = self._guards.key_of(args, kwargs, self._names, known)
        self._beside.compiles(self, self._guards.name, key)


def _counts_nothing() -> Callable[..., None]:
    """Returns a hook that does nothing: a saved module is loaded in another process, where it was
    not compiled yet."""
    return _nothing


def _nothing(module: Any, args: tuple) -> None:
    pass


@contextmanager
def kernels_are_launched(accelerator: Accelerator) -> Iterator[None]:
    """Makes a Triton kernel's `kernel[grid](...)` in the block one launch on sim, if an argument is
    a tensor on sim. Replaces Triton's driver and benchmarks with sim's."""
    if not is_there():
        yield
        return
    from triton import runtime, testing
    from triton.runtime.interpreter import InterpretedFunction

    launch: Launch = accelerator.launch

    choose_first_config()
    interpret, run = InterpretedFunction.__getitem__, InterpretedFunction.run

    def __getitem__(self: Any, grid: Any) -> Launch:
        def start(*args: Any, **meta: Any) -> Any:
            if _has_device_memory(args, meta):
                return _launch(launch, self, grid, args, meta)
            return interpret(self, grid)(*args, **meta)

        return start

    def run_on_grid(self: Any, *args: Any, grid: Any, warmup: bool = False, **meta: Any) -> Any:
        """Replaces `run` of Triton's interpreted kernels, which wrappers such as `heuristics` call:
        launches the kernel on sim if an argument is a tensor on sim."""
        if warmup:
            return triton_driver.WarmedUp(self, meta)
        if _has_device_memory(args, meta):
            return _launch(launch, self, grid, args, meta)
        return run(self, *args, grid=grid, warmup=warmup, **meta)

    launches = {"__getitem__": __getitem__, "run": run_on_grid}
    timing = in_place_of(testing, triton_driver.benchmarks(accelerator.sleep))
    with (
        replaced(InterpretedFunction, in_place_of(InterpretedFunction, launches)),
        replaced(runtime.driver, triton_driver.of_sim(runtime.driver)),
        replaced(testing, timing),
    ):
        yield


def _launch(launch: Launch, kernel: Any, grid: Any, args: tuple, meta: dict[str, Any]) -> Any:
    """Launches `kernel` on sim. `grid` may be a function that takes a dict of the arguments by
    name. Options that only Triton's compiler reads, such as `num_warps`, belong to its key."""
    if callable(grid):
        grid = grid({**dict(zip(kernel.arg_names, args, strict=False)), **meta})
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    if "warmup" not in kernel.arg_names:
        meta.pop("warmup", None)
    return launch(kernel, sizes, *args, **meta)


def _has_device_memory(args: tuple, meta: dict[str, Any]) -> bool:
    return any(type(t) is SimTensor for t in flat_tensors([*args, *meta.values()]))
