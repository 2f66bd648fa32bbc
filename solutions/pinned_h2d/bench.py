"""What the step costs, as it was and as it is: `python -m solutions.pinned_h2d.bench`."""

from .measure.bench import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
