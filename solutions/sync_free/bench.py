"""Measures the eight waits, in one step and in many: `python -m solutions.sync_free.bench`."""

from solutions.measure.command import run_as_command

from .measure.decode_steps import main

if __name__ == "__main__":
    run_as_command(main)
