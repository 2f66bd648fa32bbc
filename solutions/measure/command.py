"""Runs a benchmark as a command: `python -m solutions.gdn.bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable

INTERRUPTED = 130
"""The exit status that shells use for a program that Ctrl-C ended."""


def run_as_command(main: Callable[[], None]) -> None:
    """Runs `main()`. Ctrl-C ends the process with status 130, and one line about the figures that
    are lost."""
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped: what was not written to --output yet is lost", file=sys.stderr)
        sys.exit(INTERRUPTED)
