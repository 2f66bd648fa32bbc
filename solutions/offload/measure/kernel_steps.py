"""Steps by which a copy by a kernel became faster: the chapter tells them, and a GPU measures
them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from debubble.accelerator import Accelerator, ByAddress, Work, current, launch
from solutions.measure.benchmark import write_record

from ..choice.presets import UPSTREAM
from ..choice.upstream_scheme import swap_with_preset
from ..swap_blocks import _swap_blocks_kernel
from .grid import ROUNDS, Copy, Grid, measure_grid

NAME = "offload_steps"
SIZE, COUNTS = 8192, (64, 4096)
"""Bytes of a piece, and the two numbers of pieces, with which each step's kernel is measured."""


def by_chunks(num_programs: int, num_stages: int, vectors: bool) -> Copy:
    """Returns a function that copies by the kernel whose programs share a list of chunks, 4,096
    bytes each, with descriptors in one upload."""

    def copy(src: torch.Tensor, dst: torch.Tensor, sizes: torch.Tensor) -> None:
        chunks_per_piece = -(-int(sizes.max()) // 4096)
        columns = torch.stack([src, dst, sizes])
        if current().pin_memory:
            columns = columns.pin_memory()
        launch(
            _swap_blocks_kernel,
            (min(num_programs, len(src) * chunks_per_piece),),
            *columns.to(current().device, non_blocking=True),
            num_jobs=len(src),
            stride=1,
            chunks_per_job=chunks_per_piece,
            WORDS=4096 // 8,
            VECTOR=vectors,
            STAGES=num_stages,
            num_warps=4,
            work=lambda: Work(by_address=ByAddress(*np.stack([src, dst, sizes]))),
        )

    return copy


def by_pieces(num_programs: int) -> Copy:
    """Returns a function that copies by a kernel of `num_programs` programs, each of which copies
    whole pieces, with descriptors in three uploads."""
    preset = replace(UPSTREAM, num_programs=num_programs, min_n=0)
    return lambda src, dst, sizes: swap_with_preset(src, dst, sizes, preset)


STEPS: dict[str, Copy] = {
    "whole pieces, 1 program": by_pieces(1),
    "whole pieces, 12 programs": by_pieces(12),
    "a list of chunks": by_chunks(12, num_stages=1, vectors=False),
    "16 bytes at a time": by_chunks(12, num_stages=1, vectors=True),
    "3 chunks in flight": by_chunks(12, num_stages=3, vectors=True),
    "and 64 programs": by_chunks(64, num_stages=3, vectors=True),
}


def report_steps(
    accelerator: Accelerator, console: Console, folder: Path | None, rounds: int = ROUNDS
) -> None:
    """Prints the GB/s of each of STEPS on a GPU, as medians of `rounds` rounds, and writes the
    times to `folder` if one is given. Does nothing without a GPU."""
    if accelerator.modelled:
        return
    grid = measure_steps(accelerator, rounds=rounds)
    for name in STEPS:
        rates = [
            SIZE * count / us / 1e3 for count, us in zip(COUNTS, _row(grid, name), strict=True)
        ]
        console.print(f"{name:26}", *(f"{rate:5.1f} GB/s" for rate in rates))
    if folder is not None:
        kinds = ("device_us", "wall_us", "host_us", "event_us")
        times = {name: {kind: grid.rows(name, kind) for kind in kinds} for name in STEPS}
        contents = {"sizes": [SIZE], "counts": list(COUNTS), "times": times}
        path = write_record(folder / f"{NAME}.json", NAME, accelerator, contents)
        console.print(f"written to {path}")


def measure_steps(accelerator: Accelerator, *, rounds: int = ROUNDS) -> Grid:
    """Returns the times of each of STEPS, the kernel's versions from first to last, for copies of
    COUNTS pieces of SIZE bytes, measured `rounds` times on the device. Raises RuntimeError on
    sim."""
    return measure_grid(accelerator, STEPS, [SIZE], COUNTS, rounds=rounds)


def _row(grid: Grid, name: str) -> list[float]:
    return grid.rows(name, "device_us")[0]
