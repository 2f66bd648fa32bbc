"""Runs `torch.compile` and Triton's `kernel[grid](...)` on sim for code that says "cuda"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from debubble.contract.protocol import Accelerator
from debubble.contract.triton_mode import is_there

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
FOR_THE_COMPILER = ("num_warps", "num_stages", "num_ctas", "maxnreg", "warmup")
Launch = Callable[..., Any]


def compile(model: Any = None, **options: Any) -> Any:
    """Replaces `torch.compile`: returns the function or module unchanged, or a decorator if `model`
    is None. Warns once that nothing is compiled."""
    say_once(COMPILE)
    return (lambda function: function) if model is None else model


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
    name. Drops options that only Triton's compiler reads, such as `num_warps`."""
    if callable(grid):
        grid = grid({**dict(zip(kernel.arg_names, args, strict=False)), **meta})
    sizes = tuple(grid) if isinstance(grid, (tuple, list)) else (grid,)
    dropped = set(FOR_THE_COMPILER) - set(kernel.arg_names)
    meta = {name: value for name, value in meta.items() if name not in dropped}
    return launch(kernel, sizes, *args, **meta)


def _has_device_memory(args: tuple, meta: dict[str, Any]) -> bool:
    return any(type(t) is SimTensor for t in flat_tensors([*args, *meta.values()]))
