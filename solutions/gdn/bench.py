"""Measures a step in each variant: `python -m solutions.gdn.bench` (see `measure/bench.py`)."""

from solutions.measure.command import run_as_command

from .measure.bench import main

if __name__ == "__main__":
    run_as_command(main)
