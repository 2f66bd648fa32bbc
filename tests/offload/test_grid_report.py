"""The paths that are compared on a GPU copy the same bytes, and the report has all that a reader
needs."""

import io

import pytest
from rich.console import Console

from solutions.offload.choice.crossover import PATHS, Crossover
from solutions.offload.measure import grid, grid_report
from solutions.offload.measure.grid import CopyTimes, Grid
from solutions.offload.measure.grid_report import GridReport, contents_of, tables_of, ways_with

from .memory import swap

COMPARED = (*PATHS, "kernel_uploaded", "preset", "preset_kernel", "selected")
SIZE, COUNT = 64, 17


def report():
    cell = CopyTimes(device_us=2.0, wall_us=4.0, host_us=1.0, event_us=3.0)
    grid = Grid((4096, 8192), (16, 64), {path: [[cell] * 2] * 2 for path in COMPARED})
    return GridReport(4800.0, grid, {"kernel": 600.0})


@pytest.mark.parametrize("path", COMPARED)
def test_every_path_copies_the_same(accelerator, path):
    copied = swap(accelerator, [SIZE] * COUNT)
    copy = ways_with(Crossover.for_accelerator(accelerator), SIZE)[path]
    with accelerator.stream():
        copy(*copied.pinned_descriptors)
    copied.expect_copied()


def test_the_record_has_every_path_with_all_its_times():
    contents = contents_of(report())
    assert set(contents["times"]) == set(COMPARED)
    for kinds in contents["times"].values():
        assert kinds == {
            kind: [[us] * 2] * 2
            for kind, us in {
                "device_us": 2.0,
                "wall_us": 4.0,
                "host_us": 1.0,
                "event_us": 3.0,
            }.items()
        }
    assert contents["large_copy"] == {"bytes": grid_report.LARGE_COPY, "device_us": 4800.0}
    assert (contents["sizes"], contents["counts"]) == ([4096, 8192], [16, 64])


def test_the_tables_say_what_is_whose(accelerator):
    printed = io.StringIO()
    console = Console(file=printed, width=100)
    for table in tables_of(report(), accelerator):
        console.print(table)
    text = printed.getvalue()
    # 16 pieces of 4 KiB in 2 µs are 33 GB/s, with submission in 4 µs half of that.
    assert "33/33/33/33" in text and "16/16/16/16" in text
    assert "one large copy 55.9" in text


@pytest.mark.sim
def test_a_modelled_gpu_measures_nothing(accelerator, tmp_path):
    printed = io.StringIO()
    grid_report.report_grid(accelerator, Console(file=printed), tmp_path)
    assert "on a GPU" in printed.getvalue()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gpu
def test_a_gpu_measures_a_small_grid(accelerator, tmp_path, monkeypatch):
    monkeypatch.setattr(grid_report, "RUN_PIECES", 64)
    monkeypatch.setattr(grid, "MEMORY", 1 << 28)
    grid_report.report_grid(accelerator, Console(file=io.StringIO()), tmp_path, quick=True)
    assert (tmp_path / "offload_grid.json").exists()
