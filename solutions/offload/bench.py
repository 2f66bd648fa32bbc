"""Measures loads of KV blocks from CPU memory: `python -m solutions.offload.bench`."""

from solutions.measure.command import run_as_command

from .measure.block_loads import VARIANTS, main

__all__ = ["VARIANTS", "main"]

if __name__ == "__main__":
    run_as_command(main)
