"""Measures a step of prompts in each variant: `python -m solutions.gdn.bench`."""

from solutions.measure.command import run_as_command

from .measure.prefill_step import main

if __name__ == "__main__":
    run_as_command(main)
