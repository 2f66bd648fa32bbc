"""Measures a decode step: `python -m solutions.flex_graph.bench` (its code is in measure/)."""

from solutions.measure.command import run_as_command

from .measure.bench import main

if __name__ == "__main__":
    run_as_command(main)
