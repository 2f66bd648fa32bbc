"""What an engine's steps, batches and requests cost, with each optimisation and without:
`python -m solutions.engine.bench`."""

from solutions.measure.command import run_as_command

from .measure.bench import main

__all__ = ["main"]

if __name__ == "__main__":
    run_as_command(main)
