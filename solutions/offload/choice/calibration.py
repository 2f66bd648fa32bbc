"""`debubble calibrate`: measures which path is the fastest on this GPU, by number and size of
pieces."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import partial

import torch
import triton
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from debubble.accelerator import Accelerator

from ..measure.grid import ROUNDS, Advance, Copy, measure_grid, short_size
from ..paths.descriptors import Descriptors
from ..selection import copy_along
from ..swap_blocks import Launch
from .crossover import PATH_WORDS, PATHS, Crossover, cache_path

KIB = 1024
SIZES = tuple(kib * KIB for kib in (4, 8, 16, 24, 28, 32, 64, 128))
COUNTS = (1, 4, *(1 << power for power in range(4, 13)))
LETTERS = {"dma": "D", "kernel": "K"}
"""The letter that stands for each path in a table that has to fit into a terminal."""


def calibrate(accelerator: Accelerator, console: Console) -> None:
    """Measures which path copies fastest on this GPU, prints the table, and stores it in the user's
    cache, where later runs find it. Raises RuntimeError on sim, and if the cache can't be
    written."""
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("copying small pieces", total=len(SIZES) * len(COUNTS))
        crossover = measure_crossover(accelerator, advance=partial(progress.advance, task))
    console.print(table_of(crossover))
    path = cache_path(crossover.gpu)
    try:
        crossover.save(path)
    except OSError as error:
        raise RuntimeError(f"{path} can't be written, so nothing is kept: {error}") from error
    console.print(f"written to {path}", soft_wrap=True)


def measure_crossover(
    accelerator: Accelerator,
    sizes: Sequence[int] = SIZES,
    counts: Sequence[int] = COUNTS,
    *,
    rounds: int = ROUNDS,
    advance: Advance = lambda: None,
) -> Crossover:
    """Measures copies by each path on this GPU, of pieces of `sizes` bytes, multiples of 8, and
    returns the times as a Crossover. Takes about half a minute, and needs a GPU that no other
    process uses. `advance` is called after each of len(sizes) * len(counts) cells.

    Raises RuntimeError on sim, and if there is too little memory for the largest copy.
    """
    grid = measure_grid(accelerator, ways_for, sizes, counts, rounds=rounds, advance=advance)
    return Crossover(
        gpu=accelerator.description,
        sizes=list(sizes),
        counts=list(counts),
        times_us={
            path: [[round(time, 2) for time in row] for row in grid.rows(path, "wall_us")]
            for path in PATHS
        },
        versions={"torch": torch.__version__, "triton": triton.__version__},
        date=datetime.date.today().isoformat(),
    )


def ways_for(nbytes: int) -> dict[str, Copy]:
    """Returns a copy function for each path in PATHS, by the path's name, with the kernel's
    settings for pieces of `nbytes` bytes."""
    return {path: partial(_copy, path, Launch.for_pieces(nbytes)) for path in PATHS}


def _copy(
    path: str,
    how: Launch,
    src_addrs: torch.Tensor,
    dst_addrs: torch.Tensor,
    sizes: torch.Tensor,
) -> None:
    columns = (src_addrs, dst_addrs, sizes)
    copy_along(path, columns, Descriptors.of(*columns), how)


def table_of(crossover: Crossover) -> Table:
    """Returns a table to print, with a row for each size and a column for each number of pieces.
    Each cell has the fastest path's letter and its GB/s."""
    legend = ", ".join(f"{LETTERS[path]}: {words}" for path, words in PATH_WORDS.items())
    table = Table(
        title=f"{crossover.gpu}: the fastest path, and its GB/s with submission",
        caption=f"columns: pieces of a copy; {legend}",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("a piece", no_wrap=True)
    for count in crossover.counts:
        table.add_column(str(count), justify="right", no_wrap=True)
    for nbytes in crossover.sizes:
        table.add_row(
            short_size(nbytes), *(_cell(crossover, nbytes, count) for count in crossover.counts)
        )
    return table


def _cell(crossover: Crossover, nbytes: int, count: int) -> str:
    path = crossover.best(nbytes, count)
    bandwidth = nbytes * count / crossover.time_us(path, nbytes, count) / 1e3
    return f"{LETTERS[path]} {bandwidth:.3g}"
