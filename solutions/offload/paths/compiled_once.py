"""A launch of a Triton kernel that costs the host little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton import JITFunction


class CompiledOnce:
    """`kernel[grid](*arguments, **constants)`, launched by Triton's shorter way.

    `kernel[grid]` looks at every argument of every launch, to find out which compiled kernel it
    needs. That takes the host as long as all else of a swap. Here the constants say it, so this is
    for kernels that are specialised on no other argument. A compiled kernel takes the constants as
    well, in their place behind the arguments.
    """

    def __init__(self, kernel: JITFunction) -> None:
        self.fn = kernel
        self._compiled: dict[tuple[object, ...], tuple[Any, tuple[object, ...]]] = {}

    def __getitem__(self, grid: tuple[int]) -> Callable[..., None]:
        def run(*arguments: object, **constants: object) -> None:
            key = tuple(constants.values())
            if key not in self._compiled:
                self._compiled[key] = self._compile(arguments, constants)
            compiled, behind = self._compiled[key]
            compiled[(*grid, 1, 1)](*arguments, *behind)

        return run

    def _compile(
        self, arguments: tuple[object, ...], constants: dict[str, object]
    ) -> tuple[Any, tuple[object, ...]]:
        """The compiled kernel, and those of the constants that it has parameters for: not
        `num_warps` and the like."""
        compiled = self.fn.warmup(*arguments, grid=(1,), **constants)
        return compiled, tuple(constants[name] for name in self.fn.arg_names[len(arguments) :])


def compiled_once(kernel: object) -> object:
    """`kernel` with the shorter way, where it is compiled; as it is, where it is interpreted."""
    return CompiledOnce(kernel) if isinstance(kernel, JITFunction) else kernel
