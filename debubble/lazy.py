"""Packages whose public names are imported when they are first used.

Half of the command line's commands need no torch, which takes seconds to import.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType

from .contract.packages.pytorch import PyTorchNeeded


def make_lazy(package: str, names: Mapping[str, Iterable[str]]) -> None:
    """Makes each of these names an attribute of `package` that is imported on first use. `names`
    maps a module of the package to the names that it defines."""
    modules = {name: module for module, its_names in names.items() for name in its_names}

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
            """Sets an attribute of the package. Python sets a submodule as an attribute when it is
            imported: if it has the name of a public object, the name stays bound to that object."""
            if isinstance(value, ModuleType) and name in modules:
                value = getattr(value, name)
            super().__setattr__(name, value)

    sys.modules[package].__class__ = LazyPackage
