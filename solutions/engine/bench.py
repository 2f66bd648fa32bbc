"""Measures steps, batches and requests of the engine: `python -m solutions.engine.bench`."""

from solutions.measure.command import run_as_command

from .measure import last_fix, step_costs


def main(arguments: list[str] | None = None) -> None:
    step_costs.main(arguments)
    last_fix.main(arguments)


if __name__ == "__main__":
    run_as_command(main)
