"""`python -m solutions.gdn.bench`: what a step costs in each variant (see `measure/bench.py`)."""

from .measure.bench import main

if __name__ == "__main__":
    main()
