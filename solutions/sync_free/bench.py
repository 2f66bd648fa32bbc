"""What the eight waits cost, one step and many in a row: `python -m solutions.sync_free.bench`."""

from .measure.bench import main

if __name__ == "__main__":
    main()
