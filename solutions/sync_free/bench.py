"""Measures the eight waits, in one step and in many: `python -m solutions.sync_free.bench`."""

from solutions.measure.command import run_as_command

from .measure import decode_steps, single_sites


def main(arguments: list[str] | None = None) -> None:
    decode_steps.main(arguments)
    single_sites.main(arguments)


if __name__ == "__main__":
    run_as_command(main)
