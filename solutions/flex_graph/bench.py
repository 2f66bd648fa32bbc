"""Measures a decode step in each variant: `python -m solutions.flex_graph.bench`."""

from solutions.measure.command import run_as_command

from .measure.decode_step import main

if __name__ == "__main__":
    run_as_command(main)
