"""`debubble` and `python -m debubble`: Ctrl-C in their imports is answered by a word too."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    try:
        from .cli import app
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal may know ASCII alone: "?" keeps the columns of tables and drawings.
            stream.reconfigure(errors="replace")
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # Its reader has seen enough. What is buffered must not be written at Python's end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
