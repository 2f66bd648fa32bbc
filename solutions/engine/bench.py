"""Measures steps, batches and requests of the engine: `python -m solutions.engine.bench`."""

from solutions.measure.command import run_as_command

from .measure.step_costs import main

__all__ = ["main"]

if __name__ == "__main__":
    run_as_command(main)
