"""The peers of our copies are loaded from where they lie, or refused with one sentence."""

import sys

import pytest

from solutions.offload import bench
from solutions.offload.measure.grid import CopyTimes, Grid
from solutions.offload.measure.grid_report import GridReport, tables_of
from solutions.offload.measure.peers import driver_batch, peer_swap

from .memory import swap

A_PEER = """
from vllm import _custom_ops as ops
from vllm.triton_utils import tl, triton

CALLS = []

def swap_blocks_batch(src, dst, sizes, is_src_access_order_any=False, *, bytes_per_chunk):
    CALLS.append((len(src), is_src_access_order_any, bytes_per_chunk))
"""


def calls_of(copy):
    return copy.func.__globals__["CALLS"]


def test_a_peer_is_called_as_vllm_calls_it(accelerator, tmp_path):
    pytest.importorskip("triton")
    path = tmp_path / "peer.py"
    path.write_text(A_PEER)
    copy = peer_swap(path)(64)
    copy(*swap(accelerator, [64] * 3).descriptors)
    assert calls_of(copy) == [(3, True, 64)]
    assert not any(name.split(".")[0] == "vllm" for name in sys.modules)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (None, "is no file"),
        ("def swap_blocks_batch(", "can't be compared with"),
        ("import vllm.nothing_of_the_kind", "nothing_of_the_kind"),
        ("def swap(): ...", "has no attribute 'swap_blocks_batch'"),
    ],
)
def test_what_is_no_peer_is_refused_before_anything_is_measured(tmp_path, capsys, source, why):
    pytest.importorskip("triton")
    path = tmp_path / "peer.py"
    if source is not None:
        path.write_text(source)
    with pytest.raises(SystemExit):
        bench.main(["--peer", str(path), "--output", str(tmp_path / "figures")])
    assert why in capsys.readouterr().err
    assert not (tmp_path / "figures").exists()


def test_the_tables_have_a_column_for_a_peer_that_was_measured(accelerator):
    cell = CopyTimes(device_us=2.0, wall_us=4.0, host_us=1.0, event_us=3.0)
    paths = ("dma", "preset_kernel", "kernel", "selected", "peer")
    grid = Grid((4096,), (16,), {path: [[cell]] for path in paths})
    table, _ = tables_of(GridReport(4800.0, grid, {}), accelerator)
    assert table.columns[0].header == "D/U/K/S/P"
    assert "P the peer's file" in table.caption


@pytest.mark.gpu
def test_the_drivers_call_alone_copies_what_it_is_told(accelerator):
    copied = swap(accelerator, [64] * 17)
    assert all(column.is_contiguous() for column in copied.pinned_descriptors)
    with accelerator.stream():
        driver_batch()(*copied.pinned_descriptors)
    copied.expect_copied()
