"""Runs `debubble` and `python -m debubble`, and answers Ctrl-C during their imports with a word."""

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
            # A terminal may know only ASCII: "?" keeps the columns of tables and drawings aligned.
            stream.reconfigure(errors="replace")
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the pipe has closed it. Python must not write what is still buffered when it
        # exits either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
