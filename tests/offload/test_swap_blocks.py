"""Swapping blocks: any list's bytes arrive, by one launch, and the host never waits."""

import pytest
import torch

import debubble
from solutions.offload import Launch, launch_swap, merge_adjacent, swap_blocks_batch
from solutions.offload import swap_blocks as module
from tests.common import claims
from tests.common.refusals import expect_refused

from . import memory
from .test_dma import calls_of

PLACES = ["pageable", "pinned"]
"""The kinds of host memory in which tests put the descriptors."""
SMALL = Launch(bytes_per_chunk=16, num_programs=5)


def columns_of(swap, place):
    return swap.descriptors if place == "pageable" else swap.pinned_descriptors


def expect_swapped(swap, place="pageable", **options):
    columns = columns_of(swap, place)
    swap.expect_copied_by(swap_blocks_batch, *columns, **{"bytes_per_chunk": 4096, **options})


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("to_device", [True, False])
def test_pieces_of_all_sizes_arrive(accelerator, to_device, place):
    expect_swapped(memory.swap(accelerator, memory.FACTS_SIZES, to_device=to_device), place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [0, 1, 12, 13, 15, 16, 17])
def test_any_number_of_pieces(accelerator, number, place):
    expect_swapped(memory.swap(accelerator, [40] * number), place, bytes_per_chunk=16)


@pytest.mark.gpu
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("size", [8, 64])
def test_a_hundred_thousand_pieces(accelerator, size, place):
    expect_swapped(memory.swap(accelerator, [size] * 100_000), place)


@pytest.mark.parametrize(
    ("sizes", "shift", "vector"),
    [
        ([32] * 16, 0, True),
        ([16, 48] * 8, 0, True),
        ([24] * 16, 0, False),
        ([16, 24] * 8, 0, False),
        ([32] * 16, 8, False),
    ],
)
def test_vectors_where_everything_is_aligned(accelerator, monkeypatch, sizes, shift, vector):
    calls = calls_of(accelerator, monkeypatch, "launch")
    expect_swapped(memory.swap(accelerator, sizes, shift=shift), bytes_per_chunk=32)
    assert [options["VECTOR"] for _, options in calls] == [vector]


def test_chunks_of_one_word_are_no_vectors(accelerator):
    expect_swapped(memory.swap(accelerator, [16] * 3), bytes_per_chunk=8, min_n=0)


@pytest.mark.parametrize(("number", "kernels"), [(15, 0), (16, 1)])
def test_few_pieces_are_a_dma_batch(accelerator, number, kernels):
    swap = memory.swap(accelerator, [40] * number)
    call = lambda: expect_swapped(swap, "pinned", bytes_per_chunk=64)
    counts = claims.counts_of(accelerator, call)
    assert (counts["kernels"], counts["h2d_pinned"]) == (kernels, 1 - kernels)


def test_the_order_of_reading_is_for_a_dma_batch(accelerator, monkeypatch):
    calls = calls_of(accelerator, monkeypatch, "copy_batch")
    swap = memory.swap(accelerator, [40] * 3)
    swap.expect_copied_by(swap_blocks_batch, *swap.descriptors, True, bytes_per_chunk=64)
    assert [options["any_order"] for _, options in calls] == [True]


@pytest.mark.parametrize(("place", "uploads"), [("pageable", 1), ("pinned", 0)])
@pytest.mark.parametrize("sizes", [[40] * 20, [40, 64] * 10])
def test_one_launch_and_at_most_one_upload(accelerator, sizes, place, uploads):
    swap = memory.swap(accelerator, sizes)
    columns = columns_of(swap, place)
    call = lambda: swap_blocks_batch(*columns, bytes_per_chunk=64)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=uploads)
    assert (counts["kernels"], counts["h2d_pinned"], counts["d2d"]) == (1, uploads, 0)


@pytest.mark.parametrize(
    ("sizes", "upload", "uploads"),
    [([40] * 5, False, 0), ([40] * 5, True, 1), ([16, 8] * 3, False, 0), ([40, 8] * 3, False, 1)],
    ids=["even", "asked for", "uneven within a chunk", "uneven"],
)
def test_pinned_descriptors_are_uploaded_when_they_must_be(accelerator, sizes, upload, uploads):
    swap = memory.swap(accelerator, sizes)
    columns = swap.pinned_descriptors
    how = Launch(bytes_per_chunk=16, num_programs=5, upload=upload)
    counts = claims.counts_of(accelerator, lambda: launch_swap(accelerator, *columns, how))
    assert (counts["kernels"], counts["h2d_pinned"], counts["host_syncs"]) == (1, uploads, 0)
    swap.expect_copied()


def test_uneven_lists_leave_no_program_idle(accelerator, monkeypatch):
    """Each piece gets only as many jobs as it has chunks: a short piece beside a long one has no
    chunk past its end."""
    calls = calls_of(accelerator, monkeypatch, "launch")
    swap = memory.swap(accelerator, [8, 160, 8, 24])
    launch_swap(accelerator, *swap.descriptors, SMALL)
    swap.expect_copied()
    (_, _, *_columns, num_jobs, _stride, chunks_per_job), _ = calls[0]
    assert (num_jobs, chunks_per_job) == (1 + 10 + 1 + 2, 1)


@pytest.mark.parametrize(("number", "programs"), [(1, 3), (2, 5)])
def test_no_more_programs_than_chunks(accelerator, monkeypatch, number, programs):
    calls = calls_of(accelerator, monkeypatch, "launch")
    swap = memory.swap(accelerator, [40] * number)
    launch_swap(accelerator, *swap.descriptors, SMALL)
    swap.expect_copied()
    (_, grid, *_), _ = calls[0]
    assert grid == (programs,)


@pytest.mark.parametrize("sizes", [[64] * 24, [64] * 7 + [24] * 5])
def test_merged_lists_copy_the_same_bytes(accelerator, sizes):
    """Lists whose adjacent pieces were merged copy the same bytes. The pieces of 24 bytes have 8
    foreign bytes after them."""
    swap = memory.swap(accelerator, sizes, ordered=True, guard=0)
    merged = merge_adjacent(*(column.numpy() for column in swap.descriptors))
    assert len(merged[2]) < len(sizes)
    launch_swap(accelerator, *map(torch.from_numpy, merged), SMALL)
    swap.expect_copied()


@pytest.mark.parametrize("upload", [True, False])
@pytest.mark.parametrize("sizes", [[], [0] * 3])
def test_nothing_to_copy_queues_nothing(accelerator, sizes, upload):
    swap = memory.swap(accelerator, sizes)
    with debubble.record(accelerator) as timeline:
        for columns in (swap.descriptors, swap.pinned_descriptors, swap.pool_descriptors):
            launch_swap(accelerator, *columns, Launch(bytes_per_chunk=16, upload=upload))
        swap_blocks_batch(*swap.descriptors, bytes_per_chunk=16, min_n=0)
    assert timeline.events == []
    swap.expect_untouched()


@pytest.mark.parametrize("upload", [True, False])
@pytest.mark.parametrize("strides", [(3, 1), (1, 1), (7, 1)])
def test_a_piece_by_itself_may_have_any_stride(accelerator, strides, upload):
    swap = memory.swap(accelerator, [40])
    table = torch.stack(swap.descriptors, dim=1).pin_memory()
    columns = table.as_strided((1, 3), strides).unbind(1)
    launch_swap(accelerator, *columns, Launch(bytes_per_chunk=64, upload=upload))
    swap.expect_copied()


@pytest.mark.parametrize("sizes", [[0] * 20, [0, 40] * 10])
def test_pieces_of_no_bytes_are_nothing(accelerator, sizes):
    expect_swapped(memory.swap(accelerator, sizes), bytes_per_chunk=16)


@pytest.mark.parametrize(
    ("upload", "uploads"), [(False, 0), (True, 1)], ids=["in place", "as it is"]
)
@pytest.mark.parametrize("part", [slice(None), slice(4, 20)])
def test_the_lists_of_a_pinned_table_need_no_staging(
    accelerator, monkeypatch, part, upload, uploads
):
    swap = memory.swap(accelerator, [40] * 24)
    pieces = torch.stack(swap.descriptors)
    columns = pieces[:, part].contiguous().pin_memory().unbind()
    monkeypatch.setattr(module, "staged", None)
    how = Launch(bytes_per_chunk=64, num_programs=5, upload=upload)
    counts = claims.counts_of(accelerator, lambda: launch_swap(accelerator, *columns, how))
    assert (counts["kernels"], counts["h2d_pinned"], counts["host_syncs"]) == (1, uploads, 0)
    launch_swap(accelerator, *pieces.pin_memory().unbind(), how)
    swap.expect_copied()


def sizes_before_targets(swap):
    src, dst, sizes = swap.descriptors
    src, sizes, dst = torch.stack([src, sizes, dst]).pin_memory().unbind()
    return src, dst, sizes


@pytest.mark.parametrize("upload", [True, False])
@pytest.mark.parametrize(
    "columns_of_swap",
    [
        lambda swap: (
            *swap.pinned_descriptors[:2],
            torch.stack([swap.sizes, torch.zeros_like(swap.sizes)], 1).pin_memory()[:, 0],
        ),
        lambda swap: torch.stack(swap.descriptors[::-1]).pin_memory().unbind()[::-1],
        sizes_before_targets,
        lambda swap: torch.stack(swap.descriptors * 2, dim=1).pin_memory().unbind(1)[:3],
        lambda swap: torch.stack(swap.descriptors * 2).pin_memory().unbind()[:3],
        lambda swap: torch.stack(swap.descriptors).unbind(),
        lambda swap: [torch.from_numpy(column.numpy()) for column in swap.pool_descriptors],
    ],
    ids=[
        "different strides",
        "another order",
        "sizes before targets",
        "numbers side by side",
        "a longer table",
        "a pageable table",
        "tensors by themselves",
    ],
)
@pytest.mark.parametrize("number", [1, 2, 16])
def test_columns_may_lie_anywhere(accelerator, columns_of_swap, number, upload):
    swap = memory.swap(accelerator, [40] * number)
    columns = columns_of_swap(swap)
    launch_swap(accelerator, *columns, Launch(bytes_per_chunk=64, upload=upload))
    swap.expect_copied()


def test_two_hundred_calls_in_a_row(accelerator):
    """Two hundred calls in a row copy the right bytes without a wait, although each call's
    descriptors are overwritten by the next one while the device is busy."""
    swap = memory.swap(accelerator, [24] * 400)
    columns = [torch.empty(2, dtype=torch.int64) for _ in range(3)]

    def call(i):
        for column, values in zip(columns, swap.descriptors, strict=True):
            column.copy_(values[2 * i : 2 * i + 2])
        swap_blocks_batch(*columns, bytes_per_chunk=32, min_n=2)

    call(0)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        accelerator.sleep(50)
        for i in range(200):
            call(i)
    assert timeline.hazards == []
    assert (timeline.counts()["h2d_pinned"], timeline.counts()["host_syncs"]) == (200, 0)
    swap.expect_copied()


@pytest.mark.sim
def test_pinned_descriptors_are_to_be_left_alone(accelerator):
    swap = memory.swap(accelerator, [24] * 16)
    columns = swap.pinned_descriptors
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(5)
        swap_blocks_batch(*columns, bytes_per_chunk=32)
        columns[2].fill_(8)
    assert {hazard.kind for hazard in timeline.hazards} == {"overwritten_in_flight"}


def test_blocks_of_one_cache_may_move_on_two_streams(accelerator):
    swap = memory.swap(accelerator, [24] * 32)
    columns = swap.pinned_descriptors
    streams = [accelerator.stream(), accelerator.stream()]
    with debubble.record(accelerator) as timeline:
        for i, stream in enumerate(streams):
            with stream:
                half = [column[16 * i : 16 * i + 16] for column in columns]
                swap_blocks_batch(*half, bytes_per_chunk=32)
    assert timeline.hazards == []
    swap.expect_copied()


BAD = {
    "descriptor 5: -8 bytes: sizes are at least 0": (2, -8),
    "descriptor 5: 20 bytes: must be a multiple of 8": (2, 20),
    "descriptor 5: its source, 64 bytes at 0x0, is no memory": (0, 0),
    "descriptor 5: its target, 64 bytes at 0x0, is no memory": (1, 0),
}


@pytest.mark.parametrize("number", [10, 20], ids=["for the copy engine", "for the kernel"])
@pytest.mark.parametrize("message", BAD)
def test_bad_descriptors_are_refused_and_nothing_moves(accelerator, message, number):
    swap = memory.swap(accelerator, [64] * number)
    field, value = BAD[message]
    swap.descriptors[field][5] = value
    call = lambda: swap_blocks_batch(*swap.descriptors, bytes_per_chunk=64)
    expect_refused(accelerator, call, message, unchanged=(swap.target,))


@pytest.mark.parametrize(
    ("nbytes", "chunk", "num_warps"),
    [
        (0, 16, 4),
        (1, 16, 4),
        (16, 16, 4),
        (17, 32, 4),
        (4096, 4096, 4),
        (4097, 8192, 8),
        (8192, 8192, 8),
        (1 << 20, 8192, 8),
    ],
)
def test_a_chunk_is_hardly_larger_than_a_piece(nbytes, chunk, num_warps):
    how = Launch.for_pieces(nbytes, upload=True)
    assert how == Launch(bytes_per_chunk=chunk, upload=True)
    assert how.num_warps == num_warps
    assert not Launch.for_pieces(nbytes).upload


@pytest.mark.parametrize("nbytes", [0, 4, 12, 100, -8, 4097])
def test_a_chunk_is_a_power_of_two(accelerator, nbytes):
    swap = memory.swap(accelerator, [64] * 20)
    message = f"bytes_per_chunk is {nbytes}: it must be a power of two"
    call = lambda: swap_blocks_batch(*swap.descriptors, bytes_per_chunk=nbytes)
    expect_refused(accelerator, call, message, unchanged=(swap.target,))


def test_more_chunks_than_can_be_counted_are_refused(accelerator, monkeypatch):
    monkeypatch.setattr(module, "MOST_CHUNKS", 100)
    swap = memory.swap(accelerator, [64] * 26)
    message = "26 pieces of 4 chunks each: at most 100 chunks"
    call = lambda: launch_swap(accelerator, *swap.descriptors, SMALL)
    with pytest.raises(ValueError, match=message):
        call()
    swap.expect_untouched()


def test_columns_with_different_strides_are_no_table(accelerator):
    """Columns that lie like a table's in memory but have different strides are copied right: all
    sizes are one number here, with stride 0."""
    swap = memory.swap(accelerator, [64] * 20)
    flat = torch.zeros(3 * 20, dtype=torch.int64).pin_memory()
    places = ((3, 0), (3, 1), (0, 2))
    columns = [flat.as_strided((20,), (stride,), start) for stride, start in places]
    for column, numbers in zip(columns[:2], swap.descriptors[:2], strict=True):
        column.copy_(numbers)
    columns[2][0] = 64
    swap.expect_copied_by(swap_blocks_batch, *columns, bytes_per_chunk=4096)
