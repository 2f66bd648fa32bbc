"""Measures a host-bound step, and less and less work for its host: `python -m
solutions.host_bound.bench`."""

from solutions.measure.command import run_as_command

from .measure.host_steps import main

if __name__ == "__main__":
    run_as_command(main)
