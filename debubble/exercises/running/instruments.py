"""Detects code under test that replaces what its test judges by: objects of debubble, pytest,
Python's builtins and the tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType

from ..teaching.diagnosis import Diagnosis

OURS = {"debubble", "pytest", "_pytest", "pluggy", "builtins"}
SOLUTIONS = "solutions"
CATALOGUE = "katas/katas.toml"


class Instruments:
    """The functions, classes and methods of our modules, as they were before the code under test
    ran."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.tools: list[tuple[ModuleType | type, str, object]] = []
        """(owner, name, object) for each function, class or method; the owner is the module or
        class that has it under this name."""
        self.solutions: set[str] = set()
        self.read: list[str] = []
        """The files of our solution that were opened since `watch_files`."""

    def watch_files(self) -> None:
        """Records from now on which files of our solution this process opens. Nothing in the
        process that runs a learner's code has to."""
        sys.addaudithook(self._note_file)

    def _note_file(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            root, found, _ = path.rpartition(f"{os.sep}{SOLUTIONS}{os.sep}")
            if found and path.endswith(".py") and os.path.isfile(f"{root}/{CATALOGUE}"):
                self.read.append(os.path.relpath(path, root))

    def note(self) -> None:
        """Records the functions, classes and methods of our modules that were imported since the
        last call."""
        self.solutions = {name for name in sys.modules if _is_solution(name)}
        for name, module in [*sys.modules.items()]:
            if _is_ours(name) and self.modules.get(name) is not module:
                self.modules[name] = module
                self.tools += _tools_of(module)

    def must_be_as_they_were(self) -> None:
        """Raises KataFailure if the code under test replaced a recorded function, class or method,
        or loaded a module of our solution. The text names the first one."""
        for name in sys.modules:
            if _is_solution(name) and name not in self.solutions:
                raise Diagnosis(
                    "your code to do without our solution",
                    f"imported {name}, which takes our solution",
                    why="The exercise is to write it yourself.",
                ).failure()
        if self.read:
            raise Diagnosis(
                "your code to do without our solution",
                f"read {self.read.pop()}, which is our solution",
                why="The exercise is to write it yourself.",
            ).failure()
        for replaced in self._replaced():
            raise Diagnosis(
                "your code to leave alone what its tests judge by",
                f"replaced {replaced}",
                why="The tests say nothing of code that changes what they judge by.",
            ).failure()

    def _replaced(self) -> Iterator[str]:
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                yield f"sys.modules[{name!r}]"
            for lazy in getattr(module, "__all__", ()) if name.startswith("debubble") else ():
                found = vars(module).get(lazy)
                is_tool = isinstance(found, FunctionType | BuiltinFunctionType | type)
                if is_tool and not str(found.__module__).startswith("debubble"):
                    yield f"{name}.{lazy}"
        for owner, name, tool in self.tools:
            if vars(owner).get(name) is not tool:
                of = owner.__name__ if isinstance(owner, ModuleType) else owner.__qualname__
                yield f"{of}.{name}"


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in OURS or name.rpartition(".")[2].startswith("test_")


def _is_solution(name: str) -> bool:
    return name.partition(".")[0] == SOLUTIONS


def _tools_of(module: ModuleType) -> Iterator[tuple[ModuleType | type, str, object]]:
    """Yields the functions and classes of a module, and the methods of the classes that it
    defines."""
    for name, found in vars(module).items():
        # Functions made by another function are temporary replacements, as pytest makes in each
        # test.
        if callable(found) and "<locals>" not in getattr(found, "__qualname__", ""):
            yield module, name, found
        if isinstance(found, type) and found.__module__ == module.__name__:
            for method, value in vars(found).items():
                if callable(value) or isinstance(value, property | classmethod | staticmethod):
                    yield found, method, value
