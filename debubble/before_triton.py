"""Triton compiles or interprets a kernel by what the environment says when it is decorated.

So whoever imports debubble first has Triton set for the accelerator of this process. To know which
that is takes torch, which is therefore asked when Triton is imported, and not before.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


def before_triton() -> None:
    """From now on Triton's import sets it for sim or for CUDA; at once if that has happened."""
    if "triton" in sys.modules:
        _prepare()
    elif not any(isinstance(finder, _BeforeTriton) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeTriton())


class _BeforeTriton(MetaPathFinder):
    """Finds nothing: it is only told of the import, once."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "triton" and self in sys.meta_path:
            sys.meta_path.remove(self)
            _prepare()


def _prepare() -> None:
    from .accelerator.choice import prepare_triton

    prepare_triton()
