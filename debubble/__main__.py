"""`debubble` and `python -m debubble`: Ctrl-C in their imports is answered by a word too."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from .cli import app
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)
    app()


if __name__ == "__main__":
    main()
