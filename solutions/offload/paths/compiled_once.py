"""A launch of a Triton kernel that costs the host little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton import JITFunction, knobs
from triton.runtime import driver

HOOKS = knobs.runtime
NOBODY_WATCHES = (None, None, None)
"""In place of what Triton's hooks are told of a launch, and of the hooks before and behind it."""


class CompiledOnce:
    """`kernel[grid](*arguments, **constants)`, launched by Triton's shortest way.

    `kernel[grid]` looks at every argument of every launch, to find out which compiled kernel it
    needs. That takes the host as long as all else of a swap. Here the constants say it, so this is
    for kernels that are specialised on no other argument, launched on the device that was the
    current one at their first launch.
    """

    def __init__(self, kernel: JITFunction) -> None:
        self.fn = kernel
        self._compiled: dict[tuple[object, ...], _Compiled] = {}

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        return partial(self._launch, grid)

    def _launch(self, grid: tuple[int], *arguments: object, **constants: object) -> None:
        key = tuple(constants.values())
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = _Compiled.of(self.fn, arguments, constants)
        if HOOKS.launch_enter_hook.calls or HOOKS.launch_exit_hook.calls:
            compiled.kernel[(*grid, 1, 1)](*arguments, *compiled.constants)
            return
        compiled.run(
            *(*grid, 1, 1),
            compiled.stream_of(compiled.device),
            *compiled.loaded,
            *NOBODY_WATCHES,
            *arguments,
            *compiled.constants,
        )


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A kernel for certain constants, and what each of its launches is called with."""

    kernel: Any
    constants: tuple[object, ...]
    """A compiled kernel takes them as well, in their place behind the arguments; not `num_warps`
    and the like, which it has no parameters for."""
    run: Callable[..., None]
    loaded: tuple[object, object]
    """The kernel's function on the device, and what its launch is told of it."""
    stream_of: Callable[[int], int]
    device: int

    @classmethod
    def of(
        cls, kernel: JITFunction, arguments: tuple[object, ...], constants: dict[str, object]
    ) -> _Compiled:
        compiled: Any = kernel.warmup(*arguments, grid=(1,), **constants)
        run = compiled.run  # Loads the kernel as well: before that there is no function.
        return cls(
            compiled,
            tuple(constants[name] for name in kernel.arg_names[len(arguments) :]),
            run,
            (compiled.function, compiled.packed_metadata),
            driver.active.get_current_stream,
            driver.active.get_current_device(),
        )


def compiled_once(kernel: object) -> object:
    """`kernel` with the shorter way, where it is compiled; as it is, where it is interpreted."""
    return CompiledOnce(kernel) if isinstance(kernel, JITFunction) else kernel
