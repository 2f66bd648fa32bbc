"""Prints a checkpoint's answer to a prompt: `python -m solutions.engine.generate FOLDER
"prompt"`."""

import sys

from .text.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
