"""`python -m solutions.gdn.bench`: what a step costs in each variant (see `measure/bench.py`)."""

from solutions.measure.command import run_as_command

from .measure.bench import main

if __name__ == "__main__":
    run_as_command(main)
