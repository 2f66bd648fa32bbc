"""Measures a step of prompts in each variant: `python -m solutions.gdn.bench`."""

from solutions.measure.command import run_as_command

from .measure import prefill_step, step_sizes


def main(arguments: list[str] | None = None) -> None:
    prefill_step.main(arguments)
    step_sizes.main(arguments)


if __name__ == "__main__":
    run_as_command(main)
