"""Packages whose public names are imported when they are first asked for.

Half of what the command line does needs no torch, which takes seconds to import.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from .contract.pytorch import PyTorchNeeded


def make_lazy(package: str, modules: Mapping[str, str]) -> None:
    """`modules` says in which of the package's modules each of its names is defined."""

    class LazyPackage(ModuleType):
        def __getattr__(self, name: str) -> object:
            if name not in modules:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            try:
                value = getattr(import_module(f"{package}.{modules[name]}"), name)
            except PyTorchNeeded as error:
                raise error.by(f"{package}.{name}") from None
            setattr(self, name, value)
            return value

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *modules})

        def __setattr__(self, name: str, value: object) -> None:
            """A name stays what the package says, whoever imports a module that is called so."""
            if isinstance(value, ModuleType) and name in modules:
                value = getattr(value, name)
            super().__setattr__(name, value)

    sys.modules[package].__class__ = LazyPackage
