"""Measures two checkpoints on this engine: Qwen3-0.6B's shape with eight requests at once, and
Llama-3.2-1B's with one request: `python -m solutions.models.measure.two_shapes`.

Weights are random. Each start is a process of its own, as in `peers`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from debubble.accelerator import current

from . import peers

LOADS = {
    "qwen3_0.6b": (
        "--starts",
        "2",
        "--batch",
        "8",
        "--prompt-tokens",
        "512",
        "--new-tokens",
        "128",
    ),
    "llama_3.2_1b": ("--batch", "1", "--prompt-tokens", "512", "--new-tokens", "128"),
}
"""Options of `peers`, by shape. The second start of the first one finds compiled kernels."""
ON_SIM = {"tiny": ("--batch", "2", "--prompt-tokens", "20", "--new-tokens", "3", "--runs", "1")}
"""The same for sim, which computes each step."""


def main(arguments: list[str] | None = None) -> int:
    """Runs `peers` for each shape. Returns 0, or 1 if a contender has failed."""
    parser = argparse.ArgumentParser(
        prog="python -m solutions.models.measure.two_shapes", description=__doc__
    )
    parser.add_argument("--output", type=Path, help="folder for the figures, as JSON")
    parser.add_argument("--peers", action="store_true", help="measure transformers as well")
    options = parser.parse_args(arguments)
    more = [] if options.output is None else ["--output", str(options.output)]
    more += [] if options.peers else ["--only", "all"]
    loads = ON_SIM if current().modelled else LOADS
    return max([peers.main([shape, *load, *more]) for shape, load in loads.items()])


if __name__ == "__main__":
    raise SystemExit(main())
