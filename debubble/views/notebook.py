"""Are we in a notebook?"""

from __future__ import annotations

import sys


def in_notebook() -> bool:
    """True in a Jupyter kernel; False in a terminal, IPython's included."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
