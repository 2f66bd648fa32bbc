"""The choice of the path: once by pages and preset, or at each call by measured times."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import debubble
from solutions.offload import selection
from solutions.offload.choice.crossover import DEFAULT_GPU, PATHS, SHIPPED, Crossover
from solutions.offload.choice.presets import UPSTREAM, Preset
from solutions.offload.paths.descriptors import Descriptors, _new_descriptor_buffers
from solutions.offload.selection import _select_swap_blocks_fn, next_power_of_2
from tests.common import claims

from .memory import swap
from .times import KIB, crossover_of, line_times

ROOT = Path(__file__).parents[2]
HOST, DEVICE = 1 << 20, 1 << 40
"""Made-up addresses in host and device memory. No test of this file accesses them."""
ALWAYS = {path: crossover_of(lambda p, *_, path=path: 1 if p == path else 9) for path in PATHS}


@pytest.fixture
def queued(accelerator, monkeypatch):
    """Replaces the functions that queue copies, so that no address is accessed. Returns the list of
    their calls: `by` (the path), `copied` (the descriptors), and how they are launched."""
    calls = []

    def by_dma(accelerator, descriptors, *, any_order):
        calls.append(SimpleNamespace(by="dma", copied=descriptors, any_order=any_order))

    def by_kernel(accelerator, columns, descriptors, how):
        calls.append(SimpleNamespace(by="kernel", columns=columns, copied=descriptors, how=how))

    def by_preset(src, dst, sizes, preset):
        copied = Descriptors(src.numpy(), dst.numpy(), sizes.numpy())
        calls.append(SimpleNamespace(by="preset", copied=copied, preset=preset))

    def by_kernel_alone(accelerator, src, dst, sizes, how):
        by_kernel(accelerator, (src, dst, sizes), Descriptors.of(src, dst, sizes), how)

    monkeypatch.setattr(selection, "submit_copies", by_dma)
    monkeypatch.setattr(selection, "copy_by_kernel", by_kernel)
    monkeypatch.setattr(selection, "launch_swap", by_kernel_alone)
    monkeypatch.setattr(selection, "swap_with_preset", by_preset)
    return calls


def columns_of(sizes, *, apart=8, to_device=True):
    """Returns descriptors as a pool holds them, (sources, targets, sizes) int64 [N] each, for
    pieces of these sizes with `apart` bytes between them."""
    starts = np.concatenate([[0], np.cumsum(np.array(sizes) + apart)])[:-1]
    table = _new_descriptor_buffers(len(sizes))
    table[0] = torch.from_numpy(starts + (HOST if to_device else DEVICE))
    table[1] = torch.from_numpy(starts + (DEVICE if to_device else HOST))
    table[2] = torch.tensor(sizes)
    return table.unbind()


def load_fn(page=4 * KIB, **options):
    return _select_swap_blocks_fn([page], gpu_to_cpu=False, **options)


@pytest.mark.parametrize(
    ("pages", "gpu_to_cpu", "chosen", "chunk"),
    [
        ([4096], False, "preset", 4096),
        ([4096], True, "dma", None),
        ([4104], False, "preset", 8192),
        ([8192], False, "preset", 8192),
        ([8200], False, "preset", 8192),
        ([28 * KIB - 8], False, "preset", 8192),
        ([28 * KIB], False, "dma", None),
        ([64 * KIB], False, "dma", None),
        ([4096, 28 * KIB], False, "dma", None),
        ([4096, 512], False, "preset", 4096),
        ([512, 4096], False, "preset", 4096),
        ([8], False, "preset", 8),
        ([24], False, "preset", 32),
        ([4100], False, "dma", None),
        ([4096, 1], False, "dma", None),
        ([4096, 4100], False, "dma", None),
    ],
)
def test_upstreams_preset_decides_by_pages(pages, gpu_to_cpu, chosen, chunk):
    fn = _select_swap_blocks_fn(pages, gpu_to_cpu=gpu_to_cpu, preset=UPSTREAM)
    assert fn.name == chosen
    if chosen == "preset":
        assert fn.preset == replace(UPSTREAM, bytes_per_chunk=chunk)


@pytest.mark.parametrize(
    ("pages", "gpu_to_cpu", "chosen"),
    [
        ([4096], False, "calibrated"),
        ([4096], True, "dma"),
        ([28 * KIB, 1 << 20], False, "calibrated"),
        ([4100], False, "dma"),
        ([4096, 4], False, "dma"),
    ],
)
def test_without_a_preset_pages_say_only_whether_a_kernel_can(pages, gpu_to_cpu, chosen):
    fn = _select_swap_blocks_fn(pages, gpu_to_cpu=gpu_to_cpu, crossover=ALWAYS["kernel"])
    assert fn.name == chosen


@pytest.mark.parametrize("preset", [None, UPSTREAM])
def test_without_triton_the_dma_engine_copies(preset, monkeypatch):
    monkeypatch.setattr(selection, "triton_is_there", lambda: False)
    assert load_fn(preset=preset, crossover=ALWAYS["kernel"]).name == "dma"


def test_without_triton_it_can_be_imported():
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "from solutions.offload.selection import _select_swap_blocks_fn\n"
        "print(_select_swap_blocks_fn([4096], gpu_to_cpu=False).name)\n"
    )
    environment = os.environ | {"DEBUBBLE_DEVICE": "sim"}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert result.stdout == "dma\n", result.stderr


@pytest.mark.parametrize("preset", [None, UPSTREAM])
def test_without_pinned_memory_the_dma_engine_copies(preset, monkeypatch):
    monkeypatch.setattr(selection, "current", lambda: SimpleNamespace(pin_memory=False))
    assert load_fn(preset=preset, crossover=ALWAYS["kernel"]).name == "dma"


@pytest.mark.parametrize("pages", [[], [0], [4096, -8]])
def test_pages_without_bytes_are_refused(pages):
    with pytest.raises(ValueError, match=r"pages of \[.*\] bytes: there has to be one"):
        _select_swap_blocks_fn(pages, gpu_to_cpu=False)


@pytest.mark.sim
def test_by_default_the_crossover_of_this_gpu_is_asked():
    shipped = Crossover.load(SHIPPED / "nvidia-h200.json")
    assert load_fn().crossover.times_us == shipped.times_us
    assert load_fn().crossover.gpu == DEFAULT_GPU


@pytest.mark.parametrize(
    ("page", "chunk"), [(8, 16), (16, 16), (512, 512), (520, 1024), (4096, 4096), (1 << 20, 8192)]
)
def test_a_chunk_of_the_kernel_is_no_larger_than_a_page(page, chunk):
    assert load_fn(page, crossover=ALWAYS["kernel"]).launch.bytes_per_chunk == chunk


@pytest.mark.parametrize("number", [*range(1, 20), 4095, 4096, 4097])
def test_the_next_power_of_two(number):
    power = next_power_of_2(number)
    assert power.bit_count() == 1 and power >= number > power // 2


@pytest.mark.parametrize(("count", "kernels"), [(1, 0), (15, 0), (16, 1), (17, 1)])
def test_with_a_preset_few_pieces_are_a_dma_batch(accelerator, count, kernels):
    fn, copy = load_fn(64, preset=UPSTREAM), swap(accelerator, [64] * count)
    columns = copy.pinned_descriptors
    counts = claims.counts_of(accelerator, lambda: copy.expect_copied_by(fn, *columns))
    assert (counts["kernels"], counts["h2d_pinned"]) == (kernels, 3 if kernels else 1)
    assert fn.path_for([64] * count) == ("job_kernel" if kernels else "dma")


def test_trap_a_piece_that_is_larger_than_its_page_said_is_measured_by_itself(queued):
    """The path is chosen by the sizes of the call's pieces, also if they are larger than the
    announced pages: pages of 4 KiB favour the kernel, but pieces of 64 KiB don't."""
    fn = load_fn(4 * KIB, crossover=crossover_of(line_times))
    fn(*columns_of([4 * KIB] * 256))
    fn(*columns_of([64 * KIB] * 256))
    assert [call.by for call in queued] == ["kernel", "dma"]


def test_the_mean_size_decides_for_uneven_pieces(queued):
    fn = load_fn(crossover=crossover_of(line_times))
    fn(*columns_of([4 * KIB] * 200 + [128 * KIB] * 10))
    fn(*columns_of([4 * KIB] * 200 + [128 * KIB] * 50))
    assert [call.by for call in queued] == ["kernel", "dma"]


def by_number(path, _, count):
    """Returns made-up times that favour the DMA engine for few pieces, and the kernel for many."""
    return {"dma": count, "kernel": 20 + count / 100}[path]


def test_the_number_of_pieces_decides(queued):
    fn = load_fn(crossover=crossover_of(by_number, counts=(1, 16, 256, 4096)))
    fn(*columns_of([4096] * 4))
    fn(*columns_of([4096] * 400))
    assert [call.by for call in queued] == ["dma", "kernel"]
    assert [fn.path_for([4096] * count) for count in (4, 400)] == ["dma", "kernel"]


def test_a_list_is_taken_as_it_is(queued):
    """Adjacent pieces in a call's list are not merged: the caller has merged pieces already."""
    fn = load_fn(crossover=crossover_of(by_number, counts=(1, 16, 256, 4096)))
    columns = columns_of([4096] * 400, apart=0)
    fn(*columns)
    _select_swap_blocks_fn([4096], gpu_to_cpu=True)(*columns)
    assert [(call.by, len(call.copied)) for call in queued] == [("kernel", 400), ("dma", 400)]


def test_descriptors_in_pinned_memory_are_read_where_they_are(queued):
    fn = load_fn(crossover=crossover_of(line_times))
    columns = columns_of([4096] * 100)
    fn(*columns)
    (call,) = queued
    assert [column.data_ptr() for column in call.columns] == [c.data_ptr() for c in columns]
    assert not call.how.upload


@pytest.mark.parametrize("bytes_off", [1, 2, 4])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_trap_what_is_no_multiple_of_8_goes_to_the_dma_engine(column, bytes_off, queued):
    fn, columns = load_fn(crossover=ALWAYS["kernel"]), columns_of([4096] * 40, apart=64)
    fn(*columns)
    columns[column][17] += bytes_off
    fn(*columns)
    assert [call.by for call in queued] == ["kernel", "dma"]
    assert queued[1].copied.extent.total == int(columns[2].sum())


def test_only_loads_may_be_read_in_any_order(queued):
    store = _select_swap_blocks_fn([4096], gpu_to_cpu=True)
    store(*columns_of([4096] * 4, to_device=False))
    load_fn(4100)(*columns_of([4100] * 4))
    load_fn(crossover=ALWAYS["dma"])(*columns_of([4096] * 4))
    load_fn(crossover=ALWAYS["kernel"])(*columns_of([4100] * 4))
    assert [call.any_order for call in queued] == [False, True, True, True]


def test_path_for_takes_tensors_too():
    fn = load_fn(crossover=crossover_of(line_times))
    assert fn.path_for(torch.full((256,), 4 * KIB)) == "kernel"
    assert fn.path_for(torch.full((256,), 64 * KIB)) == "dma"


def test_warming_up_compiles_both_ways_of_loading(queued):
    load_fn(crossover=ALWAYS["dma"]).warm_up()
    assert [call.by for call in queued] == ["kernel", "kernel"]
    assert [call.copied.are_multiples(16) for call in queued] == [True, False]
    small = Preset(num_programs=2, threshold_bytes=1 << 20, min_n=16, bytes_per_chunk=64)
    load_fn(preset=small).warm_up()
    assert [call.preset.min_n for call in queued[2:]] == [0, 0]
    assert queued[2].preset.bytes_per_chunk == 64
    load_fn(4100).warm_up()
    assert len(queued) == 4, "the DMA engine has nothing to compile"


SELECTED = {
    "dma": {"crossover": ALWAYS["dma"]},
    "kernel": {"crossover": ALWAYS["kernel"]},
    "preset": {"preset": Preset(2, 1 << 20, 2, 64)},
}


def fn_of(chosen, pages=(64,)):
    return _select_swap_blocks_fn(pages, gpu_to_cpu=False, **SELECTED[chosen])


@pytest.mark.parametrize("chosen", SELECTED)
@pytest.mark.parametrize("sizes", [[64] * 5, [8, 64, 0, 72, 16], [64]])
@pytest.mark.parametrize("in_rows", [False, True], ids=["lists", "a pool's"])
def test_whoever_copies_copies_exactly_what_is_asked_for(accelerator, chosen, sizes, in_rows):
    fn = fn_of(chosen)
    with accelerator.stream():
        fn.warm_up()
        copy = swap(accelerator, sizes)
        columns = copy.pool_descriptors if in_rows else copy.pinned_descriptors
        fn(*columns)
    copy.expect_copied()


@pytest.mark.parametrize("chosen", SELECTED)
def test_pieces_of_odd_sizes_too(accelerator, chosen):
    """Pieces of odd sizes are copied right. The preset chooses by pages; the other ways also handle
    pieces that no page announced."""
    sizes = [7, 33, 64]
    for pages in [sizes] if chosen == "preset" else [sizes, [64]]:
        copy = swap(accelerator, sizes)
        copy.expect_copied_by(fn_of(chosen, pages), *copy.pool_descriptors)


@pytest.mark.parametrize("side", [0, 1])
def test_trap_addresses_lose_nothing_either(accelerator, side):
    copy = swap(accelerator, [64] * 5)
    assert copy.descriptors[side][3] % 8 == 0
    for column, tensor in ((0, copy.source), (1, copy.target)):
        assert copy.descriptors[column][3] - tensor.data_ptr() > 4
    copy.descriptors[side][3] -= 4
    columns = copy.pool_descriptors
    with accelerator.stream():
        fn_of("kernel")(*columns)
    accelerator.synchronize()
    start, end = (
        int(copy.descriptors[column][3]) - tensor.data_ptr()
        for column, tensor in ((0, copy.source), (1, copy.target))
    )
    arrived = copy.target.cpu()[end : end + 64]
    assert torch.equal(arrived, copy.source.cpu()[start : start + 64])


def test_descriptors_in_pageable_memory_are_uploaded(accelerator):
    fn, copy = fn_of("kernel"), swap(accelerator, [64] * 5)
    counts = claims.counts_of(accelerator, lambda: fn(*copy.descriptors))
    assert (counts["kernels"], counts["h2d_pinned"], counts["host_syncs"]) == (1, 1, 0)
    copy.expect_copied()


@pytest.mark.parametrize("chosen", SELECTED)
def test_nothing_to_copy_queues_nothing(accelerator, chosen):
    """An empty list of pieces queues nothing, also on the default stream, where a DMA batch would
    be refused."""
    fn = fn_of(chosen)
    copy = swap(accelerator, [])
    with debubble.record(accelerator) as timeline:
        for columns in (copy.descriptors, copy.pinned_descriptors, copy.pool_descriptors):
            fn(*columns)
    assert timeline.events == []
    assert fn.path_for([]) == "dma"


@pytest.mark.parametrize("chosen", PATHS)
def test_pieces_of_no_bytes_queue_nothing_either(accelerator, chosen):
    copy = swap(accelerator, [0] * 3)
    with debubble.record(accelerator) as timeline:
        fn_of(chosen)(*copy.pool_descriptors)
    assert timeline.events == []


@pytest.mark.parametrize("chosen", SELECTED)
def test_tensors_that_do_not_fit_are_refused(accelerator, chosen):
    copy, fn = swap(accelerator, [64] * 5), fn_of(chosen)
    src, dst, sizes = copy.pinned_descriptors
    for columns in [(src[1:], dst, sizes), (src.int(), dst, sizes), (src, dst[None], sizes)]:
        with accelerator.stream(), pytest.raises(ValueError, match=r"src_addrs|dst_addrs"):
            fn(*columns)
    copy.expect_untouched()


def test_stores_copy_exactly_what_is_asked_for(accelerator):
    copy = swap(accelerator, [64, 7, 33], to_device=False)
    columns = copy.pool_descriptors
    with accelerator.stream():
        _select_swap_blocks_fn([64], gpu_to_cpu=True)(*columns)
    copy.expect_copied()
