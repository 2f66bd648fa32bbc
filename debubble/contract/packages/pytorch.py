"""Checks that this environment has a PyTorch that debubble works with.

Recordings are opened without PyTorch. Modules that run code call `need_pytorch` first, so that an
environment without PyTorch gets one sentence and not a traceback.
"""

from __future__ import annotations

import importlib
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

SEEN = ("2.11.0", "2.13.0", "2.14.1", "2.15.0")
"""The PyTorch versions that debubble was tried with, oldest first (docs/machines.md)."""
INSTALL = "pip install 'debubble[torch]'"
"""The command that installs PyTorch. The extra names no version, so it never changes an installed
PyTorch."""


class PyTorchNeeded(ImportError):
    """Raised by functions that run code when no usable PyTorch is installed; its message is one
    sentence."""

    def __init__(self, what: str, reason: str) -> None:
        """Takes the name of a function, module or command as `what`. `reason` says what is wrong
        and the way out, and ends the sentence "... needs"."""
        super().__init__(f"{what} needs {reason}", name="torch")
        self.reason = reason

    def by(self, what: str) -> PyTorchNeeded:
        """Returns the same error for `what`, the name of the function or command that the user
        called."""
        return PyTorchNeeded(what, self.reason)


def need_pytorch(what: str) -> ModuleType:
    """Imports PyTorch and returns it. Raises PyTorchNeeded if there is none, if another file is
    found by its name, if it can't be imported, or if it is older than the oldest of SEEN."""
    try:
        reason = _not_importable()
        torch = None if reason else importlib.import_module("torch")
    except (ImportError, OSError) as error:
        torch, first_line = None, (str(error) or "no reason is given").splitlines()[0]
        reason = (
            f"PyTorch, and the one that is installed can't be imported ({first_line}): "
            f"{INSTALL} in an environment of its own"
        )
    if torch is not None:
        reason = _too_old(str(torch.__version__))
    if torch is None or reason:
        raise PyTorchNeeded(what, reason)
    return torch


def newer_than_seen(version: str) -> bool:
    """True if the first two numbers of a PyTorch version are above those of every version in
    SEEN."""
    return _numbers(version) > _numbers(SEEN[-1])


def _not_importable() -> str:
    """Returns why `import torch` would not find PyTorch, as the end of "... needs", without
    importing it; "" if it would."""
    if hasattr(sys.modules.get("torch"), "Tensor"):
        return ""
    spec = find_spec("torch")
    if spec is None:
        return f"PyTorch, which is not installed: {INSTALL}"
    if spec.origin is None:  # A folder without __init__.py: an installed PyTorch would win over it.
        folder = next(iter(spec.submodule_search_locations or ()), "torch")
        return f"PyTorch, which is not installed ({folder} is another folder): {INSTALL}"
    file = Path(spec.origin)
    is_pytorch = file.name == "__init__.py" and (file.parent / "version.py").is_file()
    if is_pytorch:
        return ""
    return (
        f"PyTorch, and Python finds {file} instead: rename that file, or take its folder off "
        "PYTHONPATH and out of the working directory"
    )


def _too_old(version: str) -> str:
    if _numbers(version) >= _numbers(SEEN[0]):
        return ""
    oldest = "{}.{}".format(*_numbers(SEEN[0]))
    return (
        f"PyTorch {oldest} or newer, and {version} is installed here: {INSTALL} in an environment "
        "of its own brings a newer one"
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Returns the first two numbers of a version: (2, 13) for "2.13.0+cpu". A version without two
    numbers counts as the newest in SEEN."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return tuple(map(int, found.groups())) if found else _numbers(SEEN[-1])
