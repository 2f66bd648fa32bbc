"""Detects a notebook, and says what it lacks for live views."""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """True in a Jupyter kernel; False in a terminal, IPython's included."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def needs_lab(what: str, error: ModuleNotFoundError) -> str:
    """Returns the sentence that `what` needs a package which is not installed, and that the extra
    `lab` brings it."""
    return f"{what} needs {error.name}, which is not installed: pip install 'debubble[lab]'"
