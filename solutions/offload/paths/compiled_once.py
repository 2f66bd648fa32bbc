"""Launches a Triton kernel at little cost for the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from triton import JITFunction, knobs
from triton.runtime import driver

HOOKS = knobs.runtime
NOBODY_WATCHES = (None, None, None)
"""Arguments of a kernel's launch without hooks: no metadata for hooks, and no hooks before and
after the launch."""


class CompiledOnce:
    """A Triton kernel with a launch that costs the host little, called as `kernel[grid](*arguments,
    **constants)`.

    Triton's own `kernel[grid]` inspects every argument of every launch to find the compiled kernel
    that it needs, which takes the host as long as the rest of a swap. Here the constants select it.
    So this is only for kernels that are specialised on no other argument, launched on the device
    that was the current one at their first launch.
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
    """A kernel compiled for certain constants, with the values that every launch of it needs."""

    kernel: Any
    constants: tuple[object, ...]
    """Constants that the compiled kernel takes as arguments, after its other arguments; without
    `num_warps` and others for which it has no parameters."""
    run: Callable[..., None]
    loaded: tuple[object, object]
    """The kernel's function on the device, and the metadata that its launch needs."""
    stream_of: Callable[[int], int]
    device: int

    @classmethod
    def of(
        cls, kernel: JITFunction, arguments: tuple[object, ...], constants: dict[str, object]
    ) -> _Compiled:
        compiled: Any = kernel.warmup(*arguments, grid=(1,), **constants)
        run = compiled.run  # Loads the kernel too: before that there is no function.
        return cls(
            compiled,
            tuple(constants[name] for name in kernel.arg_names[len(arguments) :]),
            run,
            (compiled.function, compiled.packed_metadata),
            driver.active.get_current_stream,
            driver.active.get_current_device(),
        )


def compiled_once(kernel: object) -> object:
    """Returns `kernel` wrapped in CompiledOnce if Triton compiles it, and unchanged if Triton
    interprets it."""
    return CompiledOnce(kernel) if isinstance(kernel, JITFunction) else kernel
