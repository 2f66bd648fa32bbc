"""The calibration of small copies by `debubble calibrate`: measured paths, and where it is
stored."""

from io import StringIO
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console

import debubble
from debubble.commands.registered import registered
from solutions.offload.choice import calibration
from solutions.offload.choice import crossover as crossover_module
from solutions.offload.choice.calibration import (
    COUNTS,
    SIZES,
    calibrate,
    measure_crossover,
    table_of,
    ways_for,
)
from solutions.offload.choice.crossover import PATHS, Crossover, cache_path, used_for
from solutions.offload.measure import grid
from solutions.offload.measure.grid import CopyTimes, Grid

from .memory import swap
from .times import crossover_of, line_times

A30 = SimpleNamespace(description="NVIDIA A30", modelled=False)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(crossover_module.platformdirs, "user_cache_path", lambda _: tmp_path)
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    """Replaces the measurement of a grid by made-up times. Returns a list of the arguments of the
    measured grids."""
    grids = []

    def measure_grid(accelerator, paths, sizes, counts, *, rounds, advance):
        grids.append(SimpleNamespace(paths=paths, sizes=sizes, counts=counts, rounds=rounds))

        def cell(path, nbytes, count):
            advance()
            wall_us = 1 / 3 + line_times(path, nbytes, count)
            return CopyTimes(device_us=1.0, wall_us=wall_us, host_us=2.0, event_us=3.0)

        times = {path: [[cell(path, s, c) for c in counts] for s in sizes] for path in PATHS}
        return Grid(sizes, counts, times)

    monkeypatch.setattr(calibration, "measure_grid", measure_grid)
    return grids


def printed(width=100):
    return Console(file=StringIO(), width=width, force_terminal=False)


def test_a_crossover_has_the_wall_times_of_all_paths(asked):
    measured = measure_crossover(A30, (4096, 8192), (16, 64), rounds=7)
    (grid,) = asked
    assert set(grid.paths(4096)) == set(PATHS)
    assert (grid.sizes, grid.counts, grid.rounds) == ((4096, 8192), (16, 64), 7)
    assert measured.gpu == "NVIDIA A30"
    for path in PATHS:
        for row, nbytes in enumerate((4096, 8192)):
            for column, count in enumerate((16, 64)):
                assert measured.times_us[path][row][column] == round(
                    1 / 3 + line_times(path, nbytes, count), 2
                )


def test_it_says_with_which_versions_and_when(asked):
    measured = measure_crossover(A30, (4096,), (16,))
    assert measured.versions["torch"] == torch.__version__
    assert set(measured.versions) == {"torch", "triton"}
    assert len(measured.date.split("-")) == 3


def test_by_default_the_grid_goes_from_single_pieces_to_thousands():
    assert SIZES[0] == 4096 and SIZES[-1] == 128 * 1024
    assert 28 * 1024 in SIZES, "where the DMA engine catches up"
    assert COUNTS[0] == 1 and COUNTS[-1] == 4096
    assert list(COUNTS) == sorted(set(COUNTS)) and list(SIZES) == sorted(set(SIZES))


@pytest.mark.sim
def test_sim_is_refused_in_one_sentence(accelerator, cache):
    for measure in (measure_crossover, lambda sim: calibrate(sim, printed())):
        with pytest.raises(RuntimeError, match=r"^copies are measured on a real GPU, and this is"):
            measure(accelerator)
    assert not list(cache.iterdir())


@pytest.mark.parametrize(("path", "kernels"), [("dma", 0), ("kernel", 1)])
def test_a_path_is_what_its_name_says(accelerator, path, kernels):
    copy = swap(accelerator, [64] * 5)
    columns = copy.pinned_descriptors
    with accelerator.stream():
        ways_for(64)[path](*columns)
        accelerator.synchronize()
        with debubble.record(accelerator) as timeline:
            ways_for(64)[path](*columns)
    counts = timeline.counts()
    assert counts["kernels"] == kernels
    assert counts["h2d_pinned"] == (0 if path == "kernel" else 1)
    assert counts["h2d_pageable"] == counts["host_syncs"] == 0


def test_it_is_kept_for_this_user_and_the_place_is_named(asked, cache):
    console = printed(width=400)
    calibrate(A30, console)
    path = cache_path("NVIDIA A30")
    assert path.is_relative_to(cache)
    assert Crossover.for_gpu("NVIDIA A30").best(4096, 4096) == "kernel"
    lines = console.file.getvalue().splitlines()
    assert f"written to {path}" in lines
    assert any("NVIDIA A30: the fastest path" in line for line in lines)


def test_a_cache_that_can_t_be_written_is_named_behind_what_was_found(asked, cache):
    """Calibration prints its result, and then raises RuntimeError that names the cache's file if it
    can't be written. (A file is in the place of the cache's folder.)"""
    cache_path("NVIDIA A30").parent.write_text("")
    console = printed(width=400)
    words = r"nvidia-a30.json can't be written, so nothing is kept: "
    with pytest.raises(RuntimeError, match=words):
        calibrate(A30, console)
    assert "NVIDIA A30: the fastest path" in console.file.getvalue()


def test_the_table_has_a_row_for_each_size_and_the_fastest_path_of_each_number():
    table = table_of(crossover_of(line_times))
    console = printed()
    console.print(table)
    rows = [line.split() for line in console.file.getvalue().splitlines()]
    assert ["a", "piece", "16", "256", "4096"] in rows
    gigabytes = f"{4096 / 0.5 / 1e3:.3g}"
    assert ["4", "KiB", *["K", gigabytes] * 3] in rows
    gigabytes = f"{65536 / 2 / 1e3:.3g}"
    assert ["64", "KiB", *["D", gigabytes] * 3] in rows


def test_a_table_of_all_sizes_fits_into_a_terminal():
    console = printed(width=100)
    console.print(table_of(crossover_of(line_times, SIZES, COUNTS)))
    text = console.file.getvalue()
    assert "…" not in text and max(map(len, text.splitlines())) <= 100


def test_debubble_calibrate_finds_it():
    assert registered("debubble.calibrations")["crossover"].load() is calibrate


def test_debubble_doctor_asks_about_each_that_is_measured():
    points = registered("debubble.calibrated")
    assert points.keys() == registered("debubble.calibrations").keys()
    assert points["crossover"].load() is used_for


@pytest.mark.gpu
def test_on_a_gpu_a_small_grid_is_measured_and_can_be_asked(monkeypatch):
    monkeypatch.setattr(grid, "MEMORY", 1 << 28)
    gpu = debubble.accelerator("cuda")
    cells = []
    measured = measure_crossover(
        gpu, (4096, 65536), (1, 64), rounds=3, advance=lambda: cells.append(None)
    )
    assert measured.gpu == gpu.description
    assert measured.best(4096, 64) in PATHS
    assert len(cells) == 4
    for path in PATHS:
        assert measured.time_us(path, 65536, 64) > 64 * 65536 / 1e6, "1 TB/s is no link of today"
