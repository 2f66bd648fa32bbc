"""Measures the step before and after the change: `python -m solutions.pinned_h2d.bench`."""

from solutions.measure.command import run_as_command

from .measure.image_step import main

__all__ = ["main"]

if __name__ == "__main__":
    run_as_command(main)
