"""Runs a script or a module as Python would, inside the process of debubble's command."""

from __future__ import annotations

import builtins
import os
import runpy
import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

from .loops import Loops
from .tracebacks import users_part


class NoScript(ValueError):
    """The error for a name that is no Python script or module. Its message is one sentence that
    says why."""


@dataclass(frozen=True)
class Script:
    name: str
    """The script's path as the user gave it."""
    file: str
    source: bytes
    code: types.CodeType

    @classmethod
    def read(cls, path: Path) -> Script:
        """Reads and compiles a script. Raises NoScript if the file is unreadable or not Python."""
        if path.is_dir():
            raise NoScript(f"{path} is a directory: name a Python script in it.")
        file = os.path.abspath(path)
        try:
            source = path.read_bytes()
            code = compile(source, file, "exec", dont_inherit=True)
            return cls(str(path), file, source, code)
        except OSError as error:
            raise NoScript(f"{path} can't be read: {error.strerror or error}.") from None
        except SyntaxError as error:
            where = f" (line {error.lineno})" if error.lineno else ""
            raise NoScript(f"{path} is not a Python script: {error.msg}{where}.") from None
        except ValueError as error:
            raise NoScript(f"{path} is not a Python script: {error}.") from None

    def run(self, arguments: Sequence[str], loops: Loops | None = None) -> BaseException | None:
        """Runs the script as `__main__`, with its own folder first on the path.

        Returns the exception that ended it early, which may be a SystemExit, without debubble's own
        frames in its traceback, or None. `loops` notes the passes of its loops, and of the loops of
        modules that it imports."""
        code = self.code
        if loops is not None:
            loops.main = self.file
            with suppress(RecursionError):
                code = loops.compile(self.source, self.file)
        main = types.ModuleType("__main__")
        main.__dict__.update(__file__=self.file, __builtins__=builtins, __cached__=None)
        sys.modules["__main__"] = main
        sys.argv = [self.name, *arguments]
        _search_in(os.path.dirname(os.path.realpath(self.file)))
        try:
            with ended_by_sigterm(), nullcontext() if loops is None else loops.noted():
                exec(code, main.__dict__)
        except BaseException as error:
            return error.with_traceback(users_part(error.__traceback__))
        return None


@dataclass(frozen=True)
class Module:
    """A module, or a package with a `__main__`, to run like `python -m name`."""

    name: str
    file: str

    @classmethod
    def named(cls, name: str) -> Module:
        """Finds a module, with the working directory first on the path. Raises NoScript if Python
        finds no such module."""
        _search_in(os.getcwd())
        spec = _spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = _spec(f"{name}.__main__")
        if spec is None:
            raise NoScript(
                f"the module {name!r} can't be run: there is no such module here, or it is a "
                "package without a __main__."
            )
        return cls(name, spec.origin or "")

    def run(self, arguments: Sequence[str], loops: Loops | None = None) -> BaseException | None:
        """Runs the module as `__main__`. Takes and returns the same as `Script.run`."""
        sys.argv = [self.name, *arguments]
        if loops is not None:
            loops.main = self.file
        try:
            with ended_by_sigterm(), nullcontext() if loops is None else loops.noted():
                runpy.run_module(self.name, run_name="__main__", alter_sys=True)
        except BaseException as error:
            return error.with_traceback(users_part(error.__traceback__))
        return None


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Turns SIGTERM, which `timeout` and job schedulers send, into a SystemExit with the status
    that a shell would show, so that the report of a run that takes too long is still printed. A
    handler of the script's own replaces this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _spec(name: str) -> ModuleSpec | None:
    """Returns a module's spec, or None if there is no such module. Doesn't import its packages,
    because their code is part of the run."""
    spec: ModuleSpec | None = None
    folders: Sequence[str] | None = None
    parts = name.split(".")
    for number in range(1, len(parts) + 1):
        if number > 1 and folders is None:
            return None
        finders = [finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec")]
        found = (find(".".join(parts[:number]), folders) for find in finders)
        spec = next((one for one in found if one is not None), None)
        folders = None if spec is None else spec.submodule_search_locations
    return spec


def _search_in(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path[:1] = [folder]


def exit_status(ended_by: BaseException | None) -> int:
    """Returns the exit status that Python would have, after printing to stderr what Python would
    print."""
    if ended_by is None:
        return 0
    if not isinstance(ended_by, SystemExit):
        _print(ended_by)
        return INTERRUPTED if isinstance(ended_by, KeyboardInterrupt) else 1
    if ended_by.code is None or isinstance(ended_by.code, int):
        return (ended_by.code or 0) & 0xFF
    print(ended_by.code, file=sys.stderr)
    return 1


def _print(error: BaseException) -> None:
    """Prints an exception with the script's own hook, or as Python does if the hook fails."""
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except BaseException as failure:
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(failure), failure, users_part(failure.__traceback__))
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)


INTERRUPTED = 130
