"""Says what a checkpoint answers: `python -m solutions.engine.generate FOLDER "prompt"`."""

import sys

from .text.command import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
