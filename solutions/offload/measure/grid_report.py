"""The paths side by side over a grid of copies: tables to read, and a record to keep."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from debubble.accelerator import Accelerator, current
from solutions.measure.benchmark import write_record

from ..choice.calibration import COUNTS, SIZES, measure_crossover, ways_for
from ..choice.crossover import Crossover
from ..choice.presets import UPSTREAM, Preset
from ..paths.descriptors import next_power_of_2
from ..selection import PresetSwap, SwapBlocks, _select_swap_blocks_fn
from ..swap_blocks import Launch, launch_swap
from .grid import (
    ROUNDS,
    Advance,
    CopiedMemory,
    Copy,
    CudaMeter,
    Grid,
    measure_cell,
    measure_grid,
    short_size,
)
from .peers import driver_batch

NAME = "offload_grid"
FEWEST = 16
"""Fewest pieces of a copy in this grid. Copies of fewer pieces are only calibrated."""
LARGE_COPY = 256 << 20
"""Bytes of one large copy, which shows the rate of the link."""
RUN, RUN_PIECE, RUN_PIECES = 16, 8192, 4096
"""Sizes of a copy of adjacent pieces: RUN_PIECES pieces of RUN_PIECE bytes, of which RUN at a time
are adjacent."""
IN_TABLES = {"D": "dma", "U": "preset_kernel", "K": "kernel", "S": "selected", "P": "peer"}
KINDS = {"device_us": "on the device alone", "wall_us": "with submission"}


@dataclass(frozen=True)
class GridReport:
    """Measured times of copies on one GPU: over a grid of sizes and numbers of pieces, of one large
    copy, and of adjacent pieces."""

    large_copy_us: float
    """Microseconds on the device for one copy of LARGE_COPY bytes."""
    grid: Grid
    """Times of the two PATHS, and of these ways of copying:

    "kernel_uploaded"   our kernel, whose list is uploaded first
    "preset"            upstream's choice
    "preset_kernel"     upstream's kernel at every size
    "selected"          our choice
    "driver"            one call of the driver and nothing else
    "peer"              vLLM's own file, if it was given
    """
    runs_us: Mapping[str, float]
    """Microseconds on the device for RUN_PIECES pieces of RUN_PIECE bytes, RUN of them adjacent at
    a time, by path."""

    @property
    def large_copy(self) -> float:
        """Bytes per microsecond of one large copy."""
        return LARGE_COPY / self.large_copy_us


def report_grid(
    accelerator: Accelerator,
    console: Console,
    folder: Path | None,
    quick: bool = False,
    rounds: int = ROUNDS,
    peer: Callable[[int], Copy] | None = None,
) -> None:
    """Prints tables of how fast each path copies on a GPU, as medians of `rounds` rounds, and
    writes them to `folder` if one is given. `quick` measures fewer sizes and numbers of pieces, and
    a `peer` adds its times. Without a GPU it prints that it measures nothing."""
    if accelerator.modelled:
        console.print("Copies of small pieces are measured on a GPU.")
        return
    sizes = SIZES[:2] if quick else SIZES
    counts = tuple(count for count in COUNTS if count >= FEWEST)[: 2 if quick else None]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("copies", total=2 * len(sizes) * len(counts))
        advance = partial(progress.advance, task)
        report = measure_report(accelerator, sizes, counts, rounds, advance, peer)
    for table in tables_of(report, accelerator):
        console.print(table)
    if folder is not None:
        path = write_record(folder / f"{NAME}.json", NAME, accelerator, contents_of(report))
        console.print(f"written to {path}")


def measure_report(
    accelerator: Accelerator,
    sizes: Sequence[int],
    counts: Sequence[int],
    rounds: int,
    advance: Advance,
    peer: Callable[[int], Copy] | None = None,
) -> GridReport:
    """Returns the times of all ways of copying `counts` pieces of `sizes` bytes. Our choice of a
    path ("selected") follows a crossover that is measured first, on this machine."""
    crossover = measure_crossover(accelerator, sizes, counts, rounds=rounds, advance=advance)
    driver = driver_batch()

    def all_ways(nbytes: int) -> dict[str, Copy]:
        peers = {"driver": driver, **({"peer": peer(nbytes)} if peer else {})}
        return {**ways_with(crossover, nbytes), **peers}

    grid = measure_grid(accelerator, all_ways, sizes, counts, rounds=rounds, advance=advance)
    return GridReport(
        large_copy_us(accelerator, rounds), grid, runs_us(accelerator, crossover, rounds)
    )


def ways_with(crossover: Crossover, nbytes: int) -> dict[str, Copy]:
    """Returns all ways of copying that are compared, by name, for pieces of `nbytes` bytes."""
    uploading = Launch.for_pieces(nbytes, upload=True)
    return {
        **ways_for(nbytes),
        "kernel_uploaded": partial(launch_swap, current(), how=uploading),
        "preset": _select(nbytes, preset=UPSTREAM),
        "preset_kernel": _preset_kernel(nbytes),
        "selected": _select(nbytes, crossover=crossover),
    }


def _select(
    size: int, crossover: Crossover | None = None, preset: Preset | None = None
) -> SwapBlocks:
    return _select_swap_blocks_fn([size], gpu_to_cpu=False, crossover=crossover, preset=preset)


def _preset_kernel(size: int) -> SwapBlocks:
    """Returns a swap by upstream's kernel, even where its constants leave the copy to the DMA
    engine."""
    chunk = min(next_power_of_2(size), UPSTREAM.bytes_per_chunk)
    return PresetSwap(replace(UPSTREAM, bytes_per_chunk=chunk))


def large_copy_us(accelerator: Accelerator, rounds: int) -> float:
    """Returns the median microseconds on the device for one pinned copy of LARGE_COPY bytes."""
    memory, meter = CopiedMemory(accelerator, LARGE_COPY), CudaMeter(accelerator)
    copy = partial(memory.device.copy_, memory.host, non_blocking=True)
    nothing_to_write = bool
    _, host_us, _ = meter.wall(nothing_to_write, copy)
    return statistics.median(meter.device(nothing_to_write, copy, host_us) for _ in range(rounds))


def runs_us(accelerator: Accelerator, crossover: Crossover, rounds: int) -> dict[str, float]:
    """Returns microseconds on the device by path, for pieces of which RUN at a time are adjacent in
    both memories. "selected" gets them merged, as from a handler, and all other paths get them as
    listed."""
    meter, nbytes = CudaMeter(accelerator), RUN_PIECES * RUN_PIECE
    listed = ways_with(crossover, RUN_PIECE)
    del listed["selected"]
    runs = _Runs(accelerator, RUN * nbytes)
    cell = measure_cell(runs, meter, listed, RUN_PIECE, RUN_PIECES, rounds)
    merged = ways_with(crossover, RUN * RUN_PIECE)["selected"]
    apart = CopiedMemory(accelerator, RUN * nbytes)
    cell |= measure_cell(
        apart, meter, {"selected": merged}, RUN * RUN_PIECE, RUN_PIECES // RUN, rounds
    )
    return {path: times.device_us for path, times in cell.items()}


class _Runs(CopiedMemory):
    def descriptors(self, nbytes: int, count: int) -> torch.Tensor:
        runs = super().descriptors(RUN * nbytes, count // RUN)
        table = torch.empty(3, count, dtype=torch.int64)
        offsets = nbytes * torch.arange(RUN)
        table[:2] = (runs[:2, :, None] + offsets).flatten(1)
        table[2] = nbytes
        return table


def tables_of(report: GridReport, accelerator: Accelerator) -> Iterator[Table]:
    shown = {letter: path for letter, path in IN_TABLES.items() if path in report.grid.times}
    for kind, words in KINDS.items():
        table = Table(
            title=f"{accelerator.description}: GB/s {words}; one large copy "
            f"{report.large_copy / 1e3:.1f}",
            caption="D DMA batch, U upstream's kernel, K kernel, S selected"
            + ", P the peer's file" * ("P" in shown),
            box=SIMPLE,
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        table.add_column("/".join(shown), no_wrap=True)
        for count in report.grid.counts:
            table.add_column(str(count), justify="right", no_wrap=True)
        for row, size in enumerate(report.grid.sizes):
            table.add_row(
                short_size(size),
                *(
                    _cell(report.grid, shown.values(), kind, row, column)
                    for column in range(len(report.grid.counts))
                ),
            )
        yield table


def _cell(grid: Grid, paths: Iterable[str], kind: str, row: int, column: int) -> str:
    num_bytes = grid.sizes[row] * grid.counts[column]
    return "/".join(f"{num_bytes / grid.rows(path, kind)[row][column] / 1e3:.0f}" for path in paths)


def contents_of(report: GridReport) -> dict[str, object]:
    grid = report.grid
    return {
        "large_copy": {"bytes": LARGE_COPY, "device_us": report.large_copy_us},
        "sizes": list(grid.sizes),
        "counts": list(grid.counts),
        "times": {
            path: {kind: grid.rows(path, kind) for kind in (*KINDS, "host_us", "event_us")}
            for path in grid.times
        },
        "runs": {
            "run": RUN,
            "piece_bytes": RUN_PIECE,
            "pieces": RUN_PIECES,
            "device_us": dict(report.runs_us),
        },
    }
