"""Tests of the kata `copy_to_persistent`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Diagnosis,
    KataFailure,
    Step,
    expect,
    expect_equal,
    left_as_they_were,
)

ROWS, COLUMNS = 4, 8
SLICE = (
    "Cut `dst` in each dimension at the size of `src`: for [2, 3] that is `dst[:2, :3]`. A slice "
    "is a view, so it begins where `dst` begins."
)
STRIDES = (
    "The stride says how far it is from one row to the next. A graph keeps the stride that it was "
    "captured with: if a step writes its rows packed, a replay reads row 1 at the wrong place. A "
    "slice of `dst` has the strides of `dst` in every step; the results of `reshape` and "
    "`.contiguous()` are packed, and `as_strided` checks nothing."
)
MOVED = (
    "A replay reads the address that was captured, with the sizes and strides of the capture. It "
    "sees what was copied into `dst`; it does not know the tensor of a later step. So copy into a "
    "slice of `dst`, at the same place for each size, and return that slice."
)
INSIDE = (
    "Copy `src` into the first rows and columns of `dst`, by `copy_`: this memory is what graphs "
    "have captured. Write to a view of it: `reshape` of a tensor that is itself a slice makes a "
    "copy, and a write to the copy is lost."
)
OUTSIDE = (
    "A graph of a larger batch may read what is outside of the slice: leave it alone. A caller "
    "that wants neutral values there writes them. Rows that are written packed, without a gap "
    "between them, run over it."
)
IN_PLACE = (
    "Graphs hold the address, the sizes and the strides of `dst`. `resize_` and `set_` change them "
    "for every holder of the tensor, and the graphs do not notice."
)
STAYS = (
    "Both tensors are on the device, and `slice.copy_(src)` is one launch. By way of the host it "
    "is a download and an upload, and the host waits for all that was queued before."
)
NOTHING_TO_DO = (
    "Who has written to the buffer already passes the slice itself. It begins where `dst` begins "
    "and has its strides: return it, and launch nothing."
)
REFUSED = (
    "A slice ends silently where its tensor ends, and `copy_` spreads a row over many and "
    "converts types without a word, or raises an error that knows nothing of buffers. What does "
    "not fit is a mistake of the caller: raise a ValueError before anything is written."
)
SHAPES = [
    ((6,), (4,)),
    ((4, 8), (2, 3)),
    ((4, 8), (4, 3)),
    ((4, 8), (4, 8)),
    ((3, 4, 5), (2, 1, 4)),
]
of_any_shape = pytest.mark.parametrize(("room", "shape"), SHAPES, ids=str)


def numbers(accelerator, shape, first=1):
    """Returns int32 numbers that count up from `first`, row by row."""
    count = torch.Size(shape).numel()
    tensor = torch.arange(first, first + count, dtype=torch.int32).view(shape)
    return tensor.to(accelerator.device)


def buffer_of(accelerator, shape=(ROWS, COLUMNS)):
    return numbers(accelerator, shape, first=1000)


def call_of(room, shape):
    return f"copy_to_persistent(dst {list(room)}, src {list(shape)})"


def claim(holds, expected, did, why):
    if not holds:
        raise KataFailure(Diagnosis(expected, did, why=why))


@of_any_shape
def test_the_values_arrive(kata, accelerator, room, shape):
    src = numbers(accelerator, shape)
    with left_as_they_were(src=src):
        view = kata.copy_to_persistent(buffer_of(accelerator, room), src)
    expect_equal(view, src.cpu(), call=call_of(room, shape), likely=SLICE, contiguous=False)


def expect_slice(view, dst, strides, call):
    """Checks that `view` is the start of `dst`, with the `strides` that `dst` had before the
    call."""
    claim(
        view.data_ptr() == dst.data_ptr(),
        expected=f"{call} to return a tensor that begins where `dst` begins",
        did="returned one at another address",
        why=SLICE,
    )
    value = f"the stride of what {call} returns"
    expect_equal(view.stride(), strides, value=value, likely=STRIDES)


@of_any_shape
def test_it_is_a_slice_of_the_buffer(kata, accelerator, room, shape):
    dst = buffer_of(accelerator, room)
    strides = dst.stride()
    view = kata.copy_to_persistent(dst, numbers(accelerator, shape))
    expect_slice(view, dst, strides, call_of(room, shape))


def test_the_buffer_may_be_a_slice_itself(kata, accelerator):
    wide = buffer_of(accelerator, (ROWS, COLUMNS + 4))
    dst, src = wide[:, :COLUMNS], numbers(accelerator, (2, 3))
    right = wide.cpu()
    right[:2, :3] = src.cpu()
    call = "copy_to_persistent(wide[:, :8], src [2, 3])"
    view = kata.copy_to_persistent(dst, src)
    expect_equal(wide[:2, :3], src.cpu(), value=f"`wide[:2, :3]` after {call}", likely=INSIDE)
    expect_equal(wide, right, value=f"`wide` [4, 12] after {call}", likely=OUTSIDE)
    expect_slice(view, dst, dst.stride(), call)


@of_any_shape
def test_the_slice_is_written_and_nothing_else(kata, accelerator, room, shape):
    dst, src = buffer_of(accelerator, room), numbers(accelerator, shape)
    inside, right = tuple(slice(size) for size in shape), dst.cpu()
    right[inside] = src.cpu()
    call = call_of(room, shape)
    kata.copy_to_persistent(dst, src)
    value = f"`dst.shape` after {call}"
    expect_equal(tuple(dst.shape), tuple(room), value=value, likely=IN_PLACE)
    expect_equal(dst[inside], src.cpu(), value=f"the slice of `dst` after {call}", likely=INSIDE)
    expect_equal(dst, right, value=f"`dst` after {call}", likely=OUTSIDE)


def test_the_buffer_stays_where_it_is(kata, accelerator):
    dst = buffer_of(accelerator)
    before = dst.data_ptr(), tuple(dst.shape), dst.stride()
    for shape in ((2, 3), (4, 8), (1, 5)):
        kata.copy_to_persistent(dst, numbers(accelerator, shape))
        after = dst.data_ptr(), tuple(dst.shape), dst.stride()
        value = f"address, shape and stride of `dst` after {call_of((ROWS, COLUMNS), shape)}"
        expect_equal(after, before, value=value, likely=IN_PLACE)


def capture_adding_up(accelerator, pages, table):
    """Captures a graph that adds up the pages of each row of a table. Returns it with its
    output."""
    sums = torch.zeros(len(table), dtype=pages.dtype, device=accelerator.device)

    def model():
        sums.copy_(pages.take(table.long()).sum(1))

    model()
    graph = accelerator.graph()
    with graph.capture():
        model()
    return graph, sums


def test_a_replay_reads_the_batch_of_its_step(kata, accelerator):
    dst = torch.zeros(ROWS, COLUMNS, dtype=torch.int32, device=accelerator.device)
    pages = numbers(accelerator, (64,), first=0).float()
    kept = [kata.copy_to_persistent(dst, numbers(accelerator, (2, 3)))]
    graph, sums = capture_adding_up(accelerator, pages, kept[0])
    table = dst.cpu()
    for shape, first in (((2, 3), 7), ((4, 8), 21), ((1, 2), 3), ((3, 5), 40)):
        src = numbers(accelerator, shape, first)
        kept += [src, kata.copy_to_persistent(dst, src)]
        table[: shape[0], : shape[1]] = src.cpu()
        graph.replay()
        value = (
            f"what a graph of a table of [2, 3] adds up, row by row, in a step whose table is "
            f"{list(shape)},"
        )
        expect_equal(sums, table[:2, :3].float().sum(1), value=value, likely=MOVED)


def test_nobody_waits_and_nothing_travels(kata, accelerator):
    dst, src = buffer_of(accelerator), numbers(accelerator, (2, 3))
    kata.copy_to_persistent(dst, src)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.copy_to_persistent(dst, src)
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=STAYS)


def test_what_lies_there_already_is_not_copied(kata, accelerator):
    dst = buffer_of(accelerator)
    src = dst[:2, :3]
    with debubble.record(accelerator) as timeline:
        view = kata.copy_to_persistent(dst, src)
    expect(timeline).counts(kernels=0, d2d=0, why=NOTHING_TO_DO)
    expect_slice(view, dst, dst.stride(), "copy_to_persistent(dst, dst[:2, :3])")


@pytest.mark.parametrize("shape", [(5, 3), (2, 9), (3,), (1, 2, 3)], ids=str)
def test_what_does_not_fit_is_refused(kata, accelerator, shape):
    expect_refused(kata, accelerator, numbers(accelerator, shape), f"src {list(shape)}")


def test_another_type_and_another_device_are_refused(kata, accelerator):
    src = numbers(accelerator, (2, 3))
    expect_refused(kata, accelerator, src.long(), "an int64 src [2, 3]")
    expect_refused(kata, accelerator, src.cpu(), "a src [2, 3] on the host")


def expect_refused(kata, accelerator, src, words):
    """Checks that the call raises ValueError and changes nothing."""
    dst = buffer_of(accelerator)
    raised = "nothing"
    try:
        kata.copy_to_persistent(dst, src)
    except Exception as error:
        raised = type(error).__name__
    call = f"copy_to_persistent(dst [4, 8], {words})"
    expected = f"{call} to raise a ValueError"
    claim(raised == "ValueError", expected, did=f"raised {raised}", why=REFUSED)
    right = buffer_of(accelerator).cpu()
    expect_equal(dst, right, value=f"`dst` after it refused {call}", likely=REFUSED)


def common_steps(accelerator):
    shapes = ((4, 8), (2, 3), (0, 8), (1, 1), (4, 3), (3, 0))
    sources = [numbers(accelerator, shape, first=2**30 - 7) for shape in shapes]
    sources.append(numbers(accelerator, (6, 4)).t()[:3, :5])
    shown = [f"src {list(src.shape)}" for src in sources] + ["other numbers [4, 8]"]
    sources.append(numbers(accelerator, (4, 8), first=-3))
    return [
        Step(f"copy_to_persistent(dst [4, 8], {name})", (src,), (src.cpu(), (8, 1)))
        for name, src in zip(shown, sources, strict=True)
    ]


def copying(kata, accelerator):
    """Returns a function that returns the slice and its strides."""
    dst = buffer_of(accelerator)

    def copy(src):
        view = kata.copy_to_persistent(dst, src)
        return view, view.stride()

    return copy


COMMON = Common(
    make=copying,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (numbers(accelerator, (2, n // 8)),), None),
    stale=SLICE,
)


def test_a_transposed_view_is_not_there_already(kata, accelerator):
    """It begins where the buffer begins and has its shape, but its rows are the buffer's columns.
    PyTorch refuses to copy it there, which is an answer too."""
    dst = buffer_of(accelerator, (4, 4))
    right, call = dst.cpu().t().contiguous(), "copy_to_persistent(dst, dst.t()) of a dst [4, 4]"
    try:
        view = kata.copy_to_persistent(dst, dst.t())
    except (RuntimeError, ValueError):
        return
    expect_slice(view, dst, (4, 1), call)
    expect_equal(view, right, value=f"what {call} returns", likely=OVERLAPS)


OVERLAPS = (
    "A source with the address and the shape of the slice is only there already if it has its "
    "strides too. Any other source is copied, by way of memory of its own if it overlaps the slice."
)
