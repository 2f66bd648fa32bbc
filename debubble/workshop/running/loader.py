"""Loads the code that a kata's tests are run on: the learner's, the solution, or an attempt."""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from ..kata_files.catalogue import Kata

Origin = Literal["learner", "solution", "attempt"]


class LoadError(Exception):
    """The code can't be loaded; the text is short and quotes the line."""


@dataclass(frozen=True)
class Implementation:
    """One implementation of a kata: where it lies, and whose it is."""

    kata: Kata
    origin: Origin
    path: Path

    @property
    def label(self) -> str:
        return self.origin if self.origin != "attempt" else f"attempt {self.path.stem}"

    @property
    def shown_path(self) -> str:
        return self.kata.relative(self.path)

    def load(self) -> list[ModuleType]:
        """The modules that hold the kata's names, freshly run; the solution's are real imports.

        Raises LoadError when a file has an error or lacks a name that the kata needs.
        """
        if self.origin != "solution":
            modules = [_run_file(self.path, self)]
        else:
            names = dict.fromkeys(target.module for target in self.kata.solution)
            modules = [_import_solution(name, self.kata.root) for name in names]
        for name in self.kata.exported_names:
            if not any(hasattr(module, name) for module in modules):
                raise LoadError(
                    f"{self.shown_path} has no {name!r}, which the tests call.\n"
                    f"Put it back, or start afresh with `debubble reset {self.kata.name}`."
                )
        return modules


class KataCode:
    """The names of the implementation under test, as attributes; loaded when first asked for.

    A file that can't be loaded so fails its tests, and not their preparation.
    """

    def __init__(self, implementation: Implementation) -> None:
        self.implementation = implementation
        self._modules: list[ModuleType] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._modules is None:
            self._modules = self.implementation.load()
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"{self.implementation.shown_path} has no {name!r}")

    def __repr__(self) -> str:
        return f"<kata {self.implementation.kata.name}: {self.implementation.label}>"


def learner(kata: Kata) -> Implementation:
    return Implementation(kata, "learner", kata.stub_path)


def solution(kata: Kata) -> Implementation:
    return Implementation(kata, "solution", kata.solution[0].file(kata.root))


def attempt(kata: Kata, path: Path) -> Implementation:
    return Implementation(kata, "attempt", path.resolve())


def _import_solution(name: str, root: Path) -> ModuleType:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(name)


def _run_file(path: Path, implementation: Implementation) -> ModuleType:
    """A fresh module each time: what one test leaves in a global must not help the next."""
    name = f"kata_{implementation.kata.system}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    linecache.checkcache(str(path))
    sys.modules[name] = module  # dataclasses and triton look their module up here
    try:
        # Compiled anew, because an edit within one second can escape the bytecode cache.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except FileNotFoundError:
        raise LoadError(
            f"{implementation.shown_path} is not there.\n"
            f"`debubble reset {implementation.kata.name}` brings the exercise back."
        ) from None
    except SyntaxError as error:
        raise LoadError(syntax_error_text(error, implementation)) from None
    except Exception as error:
        raise LoadError(import_error_text(error, implementation)) from None
    return module


def syntax_error_text(error: SyntaxError, implementation: Implementation) -> str:
    """File, line, the text with a caret under the place."""
    place = f"{implementation.shown_path}, line {error.lineno}"
    text = (error.text or "").rstrip("\n")
    shown = text.lstrip()
    caret = " " * max((error.offset or 1) - 1 - (len(text) - len(shown)), 0) + "^"
    return f"Python cannot read {place}: {error.msg}.\n\n    {shown}\n    {caret}"


def import_error_text(error: Exception, implementation: Implementation) -> str:
    """The exception, and the learner's line that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == str(implementation.path)]
    place = f"{implementation.shown_path}, line {own[-1].lineno}" if own else "it"
    quoted = f"\n\n    {own[-1].line}" if own and own[-1].line else ""
    return f"Loading {place} raised {type(error).__name__}: {error}{quoted}"
