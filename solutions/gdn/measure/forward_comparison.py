"""Measures our forward beside its peers': `python -m solutions.gdn.measure.forward_comparison`.

All run in turn in one process, on the same random inputs, which are new in every run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from debubble.accelerator import Accelerator, current

from ..host_tables import plan_chunk_tables
from .batches import BATCHES, GatedBatch, chosen, drawn_batches
from .contenders import Clock, Contenders
from .forward_calls import HEADS, SIZE, RuleInputs, Sequences
from .forward_report import Comparison, tables_of, write_record
from .peer import PEERS

SHORT = (1, 63, 64, 65, 300)
"""Lengths in tokens of the sequences on which errors are measured with and without
normalisation."""
RUNS, QUICK_RUNS = 41, 5
PLANNED_SEQUENCES = (8, 256, 4096)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, help="folder for the figures, as JSON")
    parser.add_argument("--quick", action="store_true", help="few runs")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only rows with these names")
    parser.add_argument("--minutes", type=float, default=math.inf, help="limit for all rows")
    parser.add_argument("--seed", type=int, help="of the lengths drawn; default: from the clock")
    options = parser.parse_args(arguments)
    runs = QUICK_RUNS if options.quick else RUNS
    seed = time.time_ns() % 2**32 if options.seed is None else options.seed
    try:
        chosen([*BATCHES, *drawn_batches(seed)], options.rows)
    except ValueError as error:
        parser.error(str(error))
    compare_forward(current(), Console(), options.output, runs, options.rows, options.minutes, seed)


def compare_forward(
    accelerator: Accelerator,
    console: Console,
    folder: Path | None = None,
    runs: int = RUNS,
    rows: Sequence[str] | None = None,
    minutes: float = math.inf,
    seed: int | None = None,
) -> None:
    """Prints how long our forward and its peers' take on the rows named (default: all), as medians
    of `runs` runs, and their errors. Rows that would start after `minutes` are left out. Batches
    are drawn by the seed, which comes from the clock by default.

    Writes `folder`/gdn_forward.json after each row if a folder is given. Without a GPU it prints
    that it measures nothing; a peer that is not installed is left out."""
    if accelerator.modelled:
        console.print(
            "Our forward is compared with its peers on a GPU only: modelled times prove nothing."
        )
        return
    deadline = time.monotonic() + 60 * minutes
    seed = time.time_ns() % 2**32 if seed is None else seed
    contenders = Contenders(accelerator, {}, deadline, say=console.print)
    batches = chosen([*BATCHES, *drawn_batches(seed)], rows)
    console.print(f"seed of the lengths drawn: {seed}")
    comparison = describe(contenders, runs, seed)

    def keep() -> None:
        if folder:
            write_record(folder, comparison)

    measure(contenders, comparison, batches, keep)
    for table in tables_of(comparison):
        console.print(table)
    if folder:
        console.print(f"written to {write_record(folder, comparison)}")


def describe(contenders: Contenders, runs: int, seed: int) -> Comparison:
    """Loads the peers that can be used into `contenders`, and returns a comparison without rows."""
    used = []
    for peer in PEERS:
        missing = peer.why_missing()
        if missing:
            contenders.note(missing)
        else:
            used.append(peer)
    contenders.peers = {peer.name: peer.load() for peer in used}
    return Comparison(
        accelerator=contenders.accelerator.description,
        shape={"heads": HEADS, "key_size": SIZE, "value_size": SIZE, "dtype": "bfloat16"},
        runs=runs,
        seed=seed,
        peers={peer.name: peer.versions() for peer in used},
        sentences=contenders.sentences,
    )


@torch.no_grad()
def measure(
    contenders: Contenders,
    comparison: Comparison,
    batches: Sequence[GatedBatch],
    keep: Callable[[], None],
) -> None:
    """Adds a row for each batch to the comparison, then errors on short sequences and the host's
    planning. Calls `keep` after each row, and once more if anything raises."""
    clock = Clock(contenders.accelerator)
    try:
        comparison.planning_us |= {number: planning_us(number) for number in PLANNED_SEQUENCES}
        for at, batch in enumerate(batches):
            if time.monotonic() > contenders.deadline:
                left = ", ".join(f"{each.sequences} ({each.gate})" for each in batches[at:])
                contenders.note(f"No time was left for these rows: {left}.")
                break
            comparison.rows[batch] = contenders.figures(clock, batch, comparison.runs)
            keep()
        measure_errors(contenders, comparison)
    finally:
        keep()


def measure_errors(contenders: Contenders, comparison: Comparison) -> None:
    """Adds each forward's errors on short sequences, with queries and keys that are normalised in
    the kernel, and before."""
    sequences = Sequences(SHORT, contenders.accelerator.device)
    for normalized, normalizes in {"in the kernel": True, "before": False}.items():
        inputs = RuleInputs.random(sequences, normalizes)
        where = f"short sequences, normalised {normalized}"
        checked = contenders.check(sequences, inputs, where, normalizes)
        comparison.errors[normalized] = {name: errors for name, (errors, _) in checked.items()}


def planning_us(num_seqs: int, longest: int = 128, runs: int = 101) -> float:
    """Returns the median microseconds that the host takes to plan both tables of `num_seqs`
    sequences of 0 to `longest` tokens."""
    lengths = np.random.default_rng(0).integers(0, longest + 1, num_seqs)
    cu_seqlens = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    took = []
    for _ in range(runs):
        started = time.perf_counter()
        plan_chunk_tables(cu_seqlens)
        took.append(time.perf_counter() - started)
    return statistics.median(took) * 1e6


if __name__ == "__main__":
    main()
