"""The code and the accelerator that a kata's tests run on."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import linecache
import re
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal

import debubble
from debubble.accelerator.choice import resolve
from debubble.contract.source_line import count_as_library

from ..kata_files.catalogue import Kata
from ..kata_files.changed_solution import Code, code_of_attempt, package_of, solution_module
from ..kata_files.tables import ExerciseError
from ..kata_files.typed import typed
from ..kata_files.workspace import Workspace

if TYPE_CHECKING:
    import pytest

    from debubble.accelerator import Accelerator

Origin = Literal["learner", "solution", "attempt", "mutant"]


class LoadError(Exception):
    """An error while loading the code under test; its text is short and quotes the line."""


@dataclass(frozen=True)
class Implementation:
    """One implementation of a kata: its file, and whose it is."""

    kata: Kata
    origin: Origin
    path: Path
    common: tuple[str, ...] | None = None
    """The tests of common checks that run on it; None for all."""
    tests: tuple[str, ...] | None = None
    """The tests of all kinds that run on it; None for all."""

    @property
    def label(self) -> str:
        named = self.origin in ("attempt", "mutant")
        return f"{self.origin} {self.path.stem}" if named else self.origin

    @property
    def shown_path(self) -> str:
        return self.kata.relative(self.path)

    def load(self) -> list[ModuleType]:
        """Loads the code, and returns the modules that hold the kata's names. Files are run again
        each time; the solution's modules are real imports.

        Raises LoadError when a file has an error or lacks a name that the kata needs.
        """
        if self.origin != "solution":
            modules = [_run_file(self)]
        else:
            names = dict.fromkeys(target.module for target in self.kata.solution)
            modules = [_import_solution(name, self.kata.root) for name in names]
        for name in self.kata.exported_names:
            if not any(hasattr(module, name) for module in modules):
                restores = typed(f"debubble reset {self.kata.name}")
                raise LoadError(
                    f"{self.shown_path} has no {name!r}, which the tests call.\n"
                    f"Put it back, or start afresh with `{restores}`."
                )
        return modules


class KataCode:
    """The code under test, which has the kata's functions and classes as attributes; it is loaded
    on first use.

    So a file that can't be loaded fails its tests, and not their set-up.
    """

    def __init__(self, implementation: Implementation) -> None:
        self.implementation = implementation
        self._modules: list[ModuleType] | None = None
        count_as_library(str(implementation.kata.test_path))

    def __getattr__(self, name: str) -> Any:
        if self._modules is None:
            self._modules = self.implementation.load()
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"{self.implementation.shown_path} has no {name!r}")

    @property
    def loaded(self) -> list[ModuleType]:
        """The loaded modules, empty if the test has used none of their names."""
        return self._modules or []

    def loaded_again(self) -> KataCode:
        """Returns the same code without what its modules have kept, unless it is the solution."""
        return KataCode(self.implementation)

    def __repr__(self) -> str:
        return f"<kata {self.implementation.kata.name}: {self.implementation.label}>"


def learner(kata: Kata) -> Implementation:
    """Returns the learner's implementation of a kata: their copy in the workspace, or else the
    stub."""
    return Implementation(kata, "learner", Workspace(kata.root).file_of(kata))


def solution(kata: Kata) -> Implementation:
    return Implementation(kata, "solution", kata.solution[0].file(kata.root))


def attempt(kata: Kata, path: Path) -> Implementation:
    return Implementation(kata, "attempt", path.resolve())


def chosen_implementation(config: pytest.Config, kata: Kata) -> Implementation:
    """Returns the implementation of a kata that `--impl` names: by default the learner's."""
    chosen = config.getoption("impl", "learner")
    if chosen == "learner":
        return learner(kata)
    return solution(kata) if chosen == "solutions" else attempt(kata, Path(chosen))


def _import_solution(name: str, root: Path) -> ModuleType:
    _make_importable(root)
    return importlib.import_module(name)


def _make_importable(root: Path) -> None:
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))


def _run_file(implementation: Implementation) -> ModuleType:
    """Runs the implementation's file in a new module, and returns the module: a global that one
    test sets must not help the next. Raises LoadError if the code can't be read or raises an
    error."""
    kata, path = implementation.kata, implementation.path
    _make_importable(kata.root)
    package, parts = _compiled(implementation)
    module = ModuleType(f"kata_{kata.system}_{path.stem}")
    module.__file__ = str(path)
    module.__package__ = package
    sys.modules[module.__name__] = module  # dataclasses and triton look their module up here
    for part in parts:
        try:
            exec(part, module.__dict__)
        except Exception as error:
            raise LoadError(import_error_text(error, implementation)) from None
    return module


def _compiled(implementation: Implementation) -> tuple[str, list[CodeType]]:
    """Returns the package, "" for none, and the code to run in it. Stores the lines as they run, so
    that tracebacks quote them.

    Compiles the text each time, because an edit within one second can escape the bytecode cache.
    Raises LoadError when there is no file, or Python can't read it.
    """
    try:
        package, parts = _code(implementation)
        compiled = [compile(text, file, "exec") for file, text in parts]
    except FileNotFoundError:
        raise LoadError(
            f"{implementation.shown_path} is not there.\n"
            f"`{typed(f'debubble reset {implementation.kata.name}')}` brings the exercise back."
        ) from None
    except ExerciseError as error:
        raise LoadError(str(error)) from None
    except OSError as error:
        raise LoadError(
            f"{implementation.shown_path} can't be read: {error.strerror or error}."
        ) from None
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise LoadError(unreadable_text(error, implementation)) from None
    for file, text in parts:
        linecache.cache[file] = len(text), None, _lines(text), file
    return package, compiled


def _lines(text: str) -> list[str]:
    """Returns the lines of `text` as Python counts them: a form feed ends no line, unlike in
    `str.splitlines`."""
    return io.StringIO(text, newline=None).readlines()


def _code(implementation: Implementation) -> Code:
    """Returns the code of an implementation. The workbook's own attempts and variants are changes
    of the solution; any other file is complete."""
    kata, path = implementation.kata, implementation.path
    if path.parent in (kata.attempts_folder.resolve(), kata.variants_folder.resolve()):
        return code_of_attempt(kata, path)
    if path.suffix != ".py":
        raise ExerciseError(
            f"{implementation.shown_path} is no Python file: give one whose name ends with .py"
        )
    text = importlib.util.decode_source(path.read_bytes())
    if implementation.origin == "mutant":
        return Code(package_of(solution_module(kata)), [(str(path), text)])
    if implementation.origin == "learner":
        _refuse_our_solution(text, implementation)
    return Code("", [(str(path), text)])


def _refuse_our_solution(text: str, implementation: Implementation) -> None:
    """Raises ExerciseError for code that takes its answer from the workbook's `solutions`, from a
    file given.py, which has it for another kata, or from the tests' FindIt."""
    answers = implementation.kata.exported_names
    modules: set[str] = set()
    """The names under which `text` has modules of `katas`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            takes = any(alias.name.split(".")[0] == "solutions" for alias in node.names)
            ours = [alias for alias in node.names if alias.name.split(".")[0] == "katas"]
            modules.update(alias.asname or "katas" for alias in ours)
        elif isinstance(node, ast.ImportFrom):
            package = "" if node.level else (node.module or "").split(".")[0]
            names = {alias.name for alias in node.names}
            given = package == "katas" and not names.isdisjoint(answers)
            takes = package == "solutions" or given or "FindIt" in names
            if package == "katas":
                modules.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            takes = node.attr in answers and _first_name(node) in modules
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            takes = _names_a_solution(node.value, implementation.kata.root)
        else:
            continue
        if takes:
            raise ExerciseError(
                f"{implementation.shown_path}, line {node.lineno} takes our solution:\n\n"
                f"    {_lines(text)[node.lineno - 1].strip()}\n\n"
                "The exercise is to write it yourself. `debubble hint "
                f"{implementation.kata.name}` helps."
            )


def _first_name(node: ast.expr) -> str:
    """Returns the name with which a chain of attributes begins, or "" if it begins otherwise."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names_a_solution(text: str, root: Path) -> bool:
    """Returns True if `text` names a module of `solutions`, as importlib takes it, or a file of
    one, as `open` does."""
    if re.search(r"\s", text):
        return False
    words = re.split(r"[./\\:]+", text)
    named = {word for before, word in pairwise(words) if before == "solutions"}
    ours = (root / "solutions").glob("*") if named else ()
    return any(path.stem in named and (path.is_dir() or path.suffix == ".py") for path in ours)


def unreadable_text(error: Exception, implementation: Implementation) -> str:
    """Returns the text for a file that Python can't read: its path and line, as far as Python knows
    them, and the line of code with a caret under the place."""
    place = implementation.shown_path
    if isinstance(error, UnicodeDecodeError):
        line = error.object.count(b"\n", 0, error.start) + 1
        wrong = f"byte 0x{error.object[error.start]:02x} is not valid {error.encoding}"
        return f"Python cannot read {place}, line {line}: {wrong}."
    if not isinstance(error, SyntaxError):
        return f"Python cannot read {place}: {error}."
    if not error.lineno:
        return f"Python cannot read {place}: {error.msg}."
    text = (error.text or "").rstrip("\n")
    shown = text.lstrip()
    caret = " " * max((error.offset or 1) - 1 - (len(text) - len(shown)), 0) + "^"
    place = f"{place}, line {error.lineno}"
    return f"Python cannot read {place}: {error.msg}.\n\n    {shown}\n    {caret}"


def import_error_text(error: Exception, implementation: Implementation) -> str:
    """Returns the text for an exception while the code is loaded: the exception, and the learner's
    line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(str(implementation.path))]
    place = f"{implementation.shown_path}, line {own[-1].lineno}" if own else "it"
    quoted = f"\n\n    {own[-1].line}" if own and own[-1].line else ""
    return f"Loading {place} raised {type(error).__name__}: {error}{quoted}"


class Implementations:
    """A pytest plugin that runs each test of a kata on each of these implementations of the
    kata."""

    def __init__(self, implementations: Sequence[Implementation]) -> None:
        self.implementations = implementations
        self.refusals: list[str] = []
        """A sentence for each test that can't run on an implementation, because it doesn't take the
        `kata` fixture."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        path = metafunc.definition.path
        if "kata" not in metafunc.fixturenames:
            name = metafunc.function.__name__
            self.refusals.append(f"{path.name}: {name} does not take the `kata` fixture")
            return
        name, is_common = (
            metafunc.definition.name,
            metafunc.function.__module__ != metafunc.module.__name__,
        )
        own = [
            found
            for found in self.implementations
            if found.kata.test_path == path
            and (not is_common or found.common is None or name in found.common)
            and (found.tests is None or name in found.tests)
        ]
        metafunc.parametrize("kata", own, ids=[found.label for found in own], indirect=True)


def chosen_accelerator(config: pytest.Config) -> Accelerator:
    return debubble.accelerator(config.getoption("device", None) or "auto")


def chosen_device(config: pytest.Config) -> str:
    """Returns the name of the accelerator that `--device` chose, without initializing CUDA."""
    return resolve(config.getoption("device", None) or "auto")
