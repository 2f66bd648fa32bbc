"""Sets Triton up for this process's accelerator before Triton is imported.

Triton decides whether it compiles or interprets a kernel when the kernel is decorated, by
environment variables. So a program that imports debubble first gets Triton set up for its
accelerator. Choosing the accelerator needs torch, so the choice is made only when Triton is
imported.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from .contract.packages.pytorch import PyTorchNeeded


def before_triton() -> None:
    """Makes Triton interpret kernels if this process runs on sim: when Triton is imported, or now
    if it already is."""
    if "triton" in sys.modules:
        _prepare()
    elif not any(isinstance(finder, _BeforeTriton) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeTriton())


class _BeforeTriton(MetaPathFinder):
    """An import hook that finds Triton as usual, and prepares it just before it is executed.
    PyTorch calls `find_spec` for Triton while PyTorch itself is imported, so finding Triton is too
    early."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != "triton":
            return None
        sys.meta_path.remove(self)
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def prepare_and_execute(module: ModuleType) -> None:
                _prepare()
                execute(module)

            vars(spec.loader)["exec_module"] = prepare_and_execute
        return spec


def _prepare() -> None:
    # Without a PyTorch that works no accelerator runs, and Triton stays as it is.
    with suppress(PyTorchNeeded):
        from .accelerator.choice import prepare_triton

        prepare_triton()
