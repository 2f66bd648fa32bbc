"""Tests of the kata `sync_detector`."""

import threading

import pytest
import torch

import debubble
from debubble.exercises import expect, expect_equal

ROWS, COLUMNS = 8192, 128
"""The shape of 4 MiB of float32. Up to 2 MiB the driver takes the bytes at once and the host goes
on."""

READS = "Every conversion of a device tensor to a Python value ends up as `_local_scalar_dense`."
BLOCKS = (
    "Without `non_blocking=True` a copy between host and device waits until it is done, and so for "
    "all that was queued before it. `to`, `cpu` and `tolist` arrive as `_to_copy`, which says in "
    "`device=` where it goes; `copy_` and assignments as `copy_(target, source, non_blocking)`."
)
PAGEABLE = (
    "A copy engine reads and writes pinned memory only. From and to any other memory the driver "
    "copies by way of a buffer of its own, and holds the host meanwhile: `non_blocking=True` "
    "changes nothing. Ask the tensor on the host whether it `is_pinned()`. (With `to`, the host "
    "side of a download is new, and pinned by PyTorch.)"
)
HOLES = (
    "The memory is pinned, but the copied elements lie in it with holes. PyTorch gathers it in "
    "fresh memory first, which is not pinned, and copies from there. Ask the tensor on the host "
    "whether it `is_contiguous()`."
)
SIZES = (
    "The host has to know how large the result is, and only the device can count it. PyTorch marks "
    "such operators: `torch.Tag.dynamic_output_shape in func.tags`."
)
PYTHON_VALUES = (
    "The values are on the host, and the device needs them: a blocking upload from pageable "
    "memory. `torch.tensor` hides it, and shows `lift_fresh` of the finished tensor, on the device "
    "already. An assignment through an index shows `index_put_`, with a value that is still on the "
    "host."
)
SILENT = (
    "A detector with false alarms is switched off. Whether a line waits follows from the operator, "
    "from its arguments, and from where its tensors lie: `tensor.device.type`."
)
INFERENCE = (
    "In inference mode PyTorch shows a mode as a whole what only calls other operators: `item`, "
    "`to`, `is_nonzero`. `func.decompose(*args, **kwargs)` runs the parts instead, or returns "
    "NotImplemented if there are none; inside `with self:` the mode is shown these parts."
)
ALLOWED = (
    "Some waits are intended, such as the wait for the tokens of the step before. Such a line is "
    "marked with `allow_waits`, and no detector around it may note it."
)
NESTED = (
    "A function that allows its own wait may be called from a region that allows waits already. "
    "When it returns, the outer region goes on: restore the earlier value, not False."
)
PER_THREAD = (
    "A mode sees the operators of the thread that entered it. The state of `allow_waits` has to "
    "belong to a thread as well: a ContextVar does, a global variable doesn't."
)


class Tensors:
    """Tensors that are fresh for each piece of watched code."""

    def __init__(self, accelerator):
        self.device = accelerator.device
        self.scores = torch.arange(float(ROWS * COLUMNS), device=self.device).view(ROWS, COLUMNS)
        self.mask = self.scores > 20
        self.ids = torch.arange(3, device=self.device)
        self.pageable = torch.ones(ROWS, COLUMNS)
        self.pinned = torch.ones(ROWS, COLUMNS, pin_memory=accelerator.pin_memory)


def waits_noted(kata, accelerator, function):
    tensors = Tensors(accelerator)
    with kata.SyncDetector() as detector:
        function(tensors)
    return detector.waits


def expect_noted(kata, accelerator, functions, why, where=""):
    """Checks that the detector notes each of these functions, which make the host wait."""
    for function in functions:
        if not waits_noted(kata, accelerator, function):
            timeline = what_happens(accelerator, function)
            expected = f"a note of the wait in `{function.__name__}`{where}"
            fail(timeline, expected, "noted nothing", why)


def expect_silence(kata, accelerator, functions, why=SILENT):
    """Checks that the detector notes none of these functions, which wait for nothing."""
    for function in functions:
        waits = waits_noted(kata, accelerator, function)
        if waits:
            timeline = what_happens(accelerator, function)
            expected = f"no note of `{function.__name__}`, which does not wait for the device"
            fail(timeline, expected, f"noted {waits[0].what!r} at `{waits[0].line}`", why)


def what_happens(accelerator, function):
    """Records the function while a kernel still runs, so that a wait can be seen."""
    tensors = Tensors(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05 if accelerator.modelled else 1.0)
        function(tensors)
    return timeline


def fail(timeline, expected, did, why):
    here = [event for event in timeline.events if "sleep" not in event.name]
    waits = [event for event in here if event.kind in ("sync", "copy")]
    expect(timeline).that(False, expected=expected, did=did, events=waits or here, why=why)


# Functions that make the host wait.


def item(t):
    return t.scores.sum().item()


def number_as_float(t):
    return float(t.scores[0, 0])


def branch(t):
    return 1 if t.mask.any() else 0


def slice_up_to_a_number(t):
    return t.scores[: t.ids[1]]


def cpu(t):
    return t.scores.cpu()


def tolist(t):
    return t.ids.tolist()


def to_device_from_pinned(t):
    return t.pinned.to(t.device)


def copy_into_pinned(t):
    return t.pinned.copy_(t.scores)


def assign_a_row_of_the_host(t):
    t.scores[0] = t.pageable[0]


def to_device_from_pageable(t):
    return t.pageable.to(t.device, non_blocking=True)


def copy_from_pageable(t):
    return t.scores.copy_(t.pageable, non_blocking=True)


def copy_into_pageable(t):
    return t.pageable.copy_(t.scores, non_blocking=True)


def to_device_from_a_result(t):
    return (t.pinned + 1).to(t.device, non_blocking=True)


def columns_to_device(t):
    return t.pinned[:, : COLUMNS // 2].to(t.device, non_blocking=True)


def copy_of_every_other_row(t):
    return t.scores[: ROWS // 2].copy_(t.pinned[::2], non_blocking=True)


def nonzero(t):
    return t.mask.nonzero()


def positions_where(t):
    return torch.where(t.mask)


def rows_by_a_mask(t):
    return t.scores[t.mask[:, 0]]


def masked_select(t):
    return t.scores.masked_select(t.mask)


def unique(t):
    return torch.unique(t.ids)


def repeat_each(t):
    return torch.repeat_interleave(t.ids, t.ids + 1)


def tensor_from_a_list(t):
    return torch.tensor([3, 1, 2], device=t.device)


def rows_by_a_list(t):
    return t.scores[[0, 2]]


def assign_one_number(t):
    t.scores[0, 0] = 7.0


def assign_a_number_by_index(t):
    t.scores[t.ids] = 0.0


# Functions that wait for nothing.


def kernels(t):
    return (t.scores * 2).softmax(-1).argmax(-1) + t.scores[:, 0]


def other_dtype(t):
    return t.scores.to(torch.float16)


def copy_on_the_device(t):
    return t.scores.clone().copy_(t.scores)


def assign_to_a_slice(t):
    t.scores[1:3] = 0.0


def fill_through_a_mask(t):
    t.scores[t.mask] = 0.0


def fill_by_index(t):
    return t.scores.index_fill_(0, t.ids, 0.0)


def choose_by_a_mask(t):
    return torch.where(t.mask, t.scores, t.scores * 2)


def rows_by_index(t):
    return t.scores[t.ids]


def repeat_to_a_known_size(t):
    return torch.repeat_interleave(t.ids, t.ids + 1, output_size=6)


def upload_from_pinned(t):
    return t.pinned.to(t.device, non_blocking=True)


def copy_from_pinned(t):
    return t.scores.copy_(t.pinned, non_blocking=True)


def rows_from_pinned(t):
    return t.scores[:2].copy_(t.pinned[2:4], non_blocking=True)


def download(t):
    return t.scores.to("cpu", non_blocking=True)


def download_into_pinned(t):
    return t.pinned.copy_(t.scores, non_blocking=True)


def item_of_the_host(t):
    return t.pageable.sum().item()


def copies_on_the_host(t):
    return t.pageable.copy_(t.pinned).to(torch.float64)


def sizes_on_the_host(t):
    return t.pageable[t.pageable > 0].nonzero()


def list_on_the_host(t):
    return torch.tensor([3, 1, 2])


def test_it_notes_values_that_are_read(kata, accelerator):
    expect_noted(
        kata, accelerator, [item, number_as_float, branch, slice_up_to_a_number], why=READS
    )


def test_it_names_the_line(kata, accelerator):
    noted = [(wait.function, wait.line) for wait in waits_noted(kata, accelerator, item)]
    expected = [("item", "return t.scores.sum().item()")]
    expect_equal(noted, expected, value="what is noted, function and line, of one `item()`")


def test_what_it_watches_computes_the_same(kata, accelerator):
    def compute(t):
        values, places = t.scores.topk(2, dim=1, largest=False)
        t.scores[0] = t.pinned[0]
        return [values, places, *t.scores.split([2, ROWS - 2]), torch.full_like(values, 3.0)]

    expected = compute(Tensors(accelerator))
    with kata.SyncDetector():
        results = compute(Tensors(accelerator))
    likely = "Run the operator with all its arguments, and return what it returns."
    expect_equal(results, expected, value="the results of watched code", likely=likely)


def test_it_is_silent_where_the_device_works(kata, accelerator):
    functions = [kernels, other_dtype, copy_on_the_device, assign_to_a_slice, fill_through_a_mask]
    functions += [fill_by_index, choose_by_a_mask, rows_by_index, repeat_to_a_known_size]
    expect_silence(kata, accelerator, functions)


def test_it_is_silent_where_copies_run_beside(kata, accelerator, pinning):
    functions = [upload_from_pinned, copy_from_pinned, rows_from_pinned]
    functions += [download, download_into_pinned]
    expect_silence(kata, accelerator, functions)


def test_it_is_silent_where_the_host_works(kata, accelerator):
    functions = [item_of_the_host, copies_on_the_host, sizes_on_the_host, list_on_the_host]
    expect_silence(kata, accelerator, functions)


def test_it_notes_copies_that_block(kata, accelerator):
    functions = [cpu, tolist, to_device_from_pinned, copy_into_pinned, assign_a_row_of_the_host]
    expect_noted(kata, accelerator, functions, why=BLOCKS)


def test_it_notes_copies_from_and_to_pageable_memory(kata, accelerator):
    functions = [to_device_from_pageable, copy_from_pageable, copy_into_pageable]
    expect_noted(kata, accelerator, [*functions, to_device_from_a_result], why=PAGEABLE)


def test_it_notes_copies_of_memory_with_holes(kata, accelerator, pinning):
    expect_noted(kata, accelerator, [columns_to_device, copy_of_every_other_row], why=HOLES)


def test_it_notes_results_whose_size_the_host_cannot_know(kata, accelerator):
    functions = [nonzero, positions_where, rows_by_a_mask, masked_select, unique, repeat_each]
    expect_noted(kata, accelerator, functions, why=SIZES)


def test_it_notes_python_values_that_travel(kata, accelerator):
    functions = [tensor_from_a_list, rows_by_a_list, assign_one_number, assign_a_number_by_index]
    expect_noted(kata, accelerator, functions, why=PYTHON_VALUES)


def test_it_sees_through_inference_mode(kata, accelerator):
    with torch.inference_mode():
        functions = [item, branch, cpu, tolist, to_device_from_pageable, positions_where]
        expect_noted(kata, accelerator, functions, INFERENCE, where=", in inference mode")
        expect_silence(kata, accelerator, [kernels, other_dtype, item_of_the_host])
        noted = len(waits_noted(kata, accelerator, item))
    value = "the number of notes of one `item()` in inference mode"
    expect_equal(noted, 1, value=value, likely="Its parts, or the whole: not both.")


def test_detectors_may_lie_inside_each_other(kata, accelerator):
    t = Tensors(accelerator)
    with kata.SyncDetector() as outer:
        item(t)
        with kata.SyncDetector() as inner:
            item(t)
        item(t)
    item(t)
    found = (len(outer.waits), len(inner.waits))
    likely = "A detector watches from its beginning to its end, whatever other detectors do."
    expect_equal(found, (3, 1), value="the number of notes (outer, inner)", likely=likely)


def test_it_watches_its_own_thread(kata, accelerator):
    t = Tensors(accelerator)
    with kata.SyncDetector() as detector:
        in_a_thread(lambda: item(t))
    noted = len(detector.waits)
    expect_equal(noted, 0, value="the notes of what another thread waits for", likely=PER_THREAD)


def test_what_is_allowed_is_not_noted(kata, accelerator):
    t = Tensors(accelerator)
    with kata.SyncDetector() as outer, kata.SyncDetector() as inner:
        with kata.allow_waits():
            item(t)
        allowed = (len(outer.waits), len(inner.waits))
        item(t)
    value = "the number of notes inside `allow_waits()` (outer detector, inner detector)"
    expect_equal(allowed, (0, 0), value=value, likely=ALLOWED)
    expect_equal(len(inner.waits), 1, value="the number of notes after it", likely=NESTED)


def test_allowed_regions_may_lie_inside_each_other(kata, accelerator):
    t = Tensors(accelerator)
    with kata.SyncDetector() as detector, kata.allow_waits():
        with kata.allow_waits():
            item(t)
        item(t)
    value = "the number of notes inside `allow_waits()`, after a region in that region"
    expect_equal(len(detector.waits), 0, value=value, likely=NESTED)


def test_an_error_ends_an_allowed_region(kata, accelerator):
    t = Tensors(accelerator)
    with kata.SyncDetector() as detector:
        with pytest.raises(KeyError), kata.allow_waits():
            raise KeyError
        item(t)
    likely = "An error leaves the region too. The code in `finally:` runs in any case."
    value = "the number of notes after a region that an error has ended"
    expect_equal(len(detector.waits), 1, value=value, likely=likely)


def test_a_wait_is_allowed_in_one_thread_only(kata, accelerator):
    t, noted = Tensors(accelerator), []

    def watched():
        with kata.SyncDetector() as detector:
            item(t)
        noted.append(len(detector.waits))

    with kata.allow_waits():
        in_a_thread(watched)
    value = "the number of notes in another thread, while this one allows waits"
    expect_equal(noted, [1], value=value, likely=PER_THREAD)


def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.fixture
def pinning(accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory can't be pinned here, and every copy holds the host")
