"""A benchmark as a command: `python -m solutions.gdn.bench`."""

from __future__ import annotations

import sys
from collections.abc import Callable

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as shells know it."""


def run_as_command(main: Callable[[], None]) -> None:
    """Runs `main()`. Ctrl-C ends the process with one line, which says what became of the figures,
    and with status 130."""
    try:
        main()
    except KeyboardInterrupt:
        print("\nstopped: what was not written to --output yet is lost", file=sys.stderr)
        sys.exit(INTERRUPTED)
