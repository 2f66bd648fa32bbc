"""Triton compiles or interprets a kernel by what the environment says when it is decorated.

So whoever imports debubble first has Triton set for the accelerator of this process. To know which
that is takes torch, which is therefore asked when Triton is imported, and not before.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from .contract.pytorch import PyTorchNeeded


def before_triton() -> None:
    """From now on Triton's import sets it for sim or for CUDA; at once if that has happened."""
    if "triton" in sys.modules:
        _prepare()
    elif not any(isinstance(finder, _BeforeTriton) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeTriton())


class _BeforeTriton(MetaPathFinder):
    """Finds Triton where the others find it. PyTorch asks where it is while it is imported itself:
    so what is to be done waits until Triton really is imported."""

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
