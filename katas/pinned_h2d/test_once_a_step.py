"""Tests of the kata `once_a_step`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    left_as_they_were,
)

LAYERS, REQUESTS = 48, 4
PER_LAYER = (
    "All layers of a step read the same ranges. An upload for each of them puts a copy between "
    "every two layers, and each copy is a place where the device can run dry."
)
TWO_KINDS = (
    "Layers of different kinds have batch objects of their own, and these hold the same requests. "
    "One tensor serves them all: go by the step, and not by the object."
)
NOT_SET = "Every layer reads its own metadata: set it in all of them, also when it is None."
NONE_IS_AN_ANSWER = (
    "Did you take None for 'not computed yet'? `upload` also returns None when the step has no "
    "ranges, as most steps: all layers then compute it once more. Call `upload` before the loop, "
    "or tell a result of None from a result that is not computed yet."
)
CALLED_NEVER = (
    "`upload` decides what a step without ranges has: None, or zeros where a graph reads what the "
    "step before left. Call it once in each step, whatever its ranges are."
)
EACH_STEP = (
    "A cache that outlives the step holds device memory for every set of ranges that was ever "
    "seen, and grows for ever. One upload a step is what the task asks for."
)
STALE = (
    "Did you keep the tensor of an earlier step? The runner changes its dict in place when a "
    "request comes or goes, so the same dict does not mean the same ranges. Compute them in each "
    "step: once is cheap."
)


class Batch:
    def __init__(self, first, num_requests):
        self.requests = range(first, first + num_requests)
        self.scheduled = (range(64),) * num_requests
        self.num_seqs = num_requests


class Metadata:
    def __init__(self, batch):
        self.batch = batch
        self.mm_prefix_range_tensor = "not set"


def layers_of(first=0, num_requests=REQUESTS, num_layers=LAYERS):
    """Returns the metadata of layers of two kinds, each with its own batch object, as upstream has
    them."""
    batches = [Batch(first, num_requests), Batch(first, num_requests)]
    return {f"layers.{i}": Metadata(batches[i % 2]) for i in range(num_layers)}


class Upload:
    """An upload function with one pinned upload in each call; it returns None without any range,
    and counts its calls."""

    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.calls = 0

    def __call__(self, ranges, num_seqs):
        self.calls += 1
        rows = [list((ranges or {}).get(row, ())) for row in range(num_seqs)]
        if not any(rows):
            return None
        padded = torch.zeros(
            num_seqs, 2, 2, dtype=torch.int32, pin_memory=self.accelerator.pin_memory
        )
        for row, spans in enumerate(rows):
            if spans:
                padded[row, : len(spans)] = torch.tensor(spans, dtype=torch.int32)
        return padded.to(self.accelerator.device, non_blocking=True)


def expect_rows(layers, rows, likely=""):
    """Checks that all layers have these spans, one for each row."""
    for name, metadata in layers.items():
        tensor = metadata.mm_prefix_range_tensor
        expect_equal(
            tensor[:, 0] if isinstance(tensor, torch.Tensor) else tensor,
            torch.tensor(rows, dtype=torch.int32),
            value=f"the first span of each row in the metadata of {name}",
            likely=NOT_SET if tensor == "not set" else likely,
        )


def test_every_layer_has_the_ranges(kata, accelerator):
    layers, ranges = layers_of(), {1: [(2, 5)]}
    with left_as_they_were(ranges=ranges):
        kata._set_mm_prefix_range_for_metadata(layers, ranges, Upload(accelerator))
    expect_rows(layers, [[0, 0], [2, 5], [0, 0], [0, 0]], NOT_SET)


def test_every_layer_has_none_when_there_is_nothing_to_say(kata, accelerator):
    layers = layers_of()
    kata._set_mm_prefix_range_for_metadata(layers, {}, Upload(accelerator))
    for name, metadata in layers.items():
        value = f"`mm_prefix_range_tensor` in the metadata of {name}"
        expect_equal(metadata.mm_prefix_range_tensor, None, value=value, likely=NOT_SET)


def test_all_layers_share_one_upload(kata, accelerator):
    with debubble.record(accelerator) as timeline:
        kata._set_mm_prefix_range_for_metadata(layers_of(), {1: [(2, 5)]}, Upload(accelerator))
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) == 1,
        expected=f"1 upload for {LAYERS} layers",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        quoted=(),  # the line is in `Upload`, above
        why=PER_LAYER if len(uploads) == LAYERS else TWO_KINDS if uploads else STALE,
    )


def test_none_is_an_answer_too(kata, accelerator):
    upload = Upload(accelerator)
    with debubble.record(accelerator) as timeline:
        kata._set_mm_prefix_range_for_metadata(layers_of(), {0: []}, upload)
    expect(timeline).that(
        upload.calls == 1,
        expected=f"`upload` to be called once for {LAYERS} layers, also when it returns None",
        did=f"called `upload` {upload.calls} times",
        why=why_not_once(upload.calls),
    )


def why_not_once(calls):
    """Returns why `upload` should be called once, and not that many times, in a step without
    ranges."""
    if calls == 0:
        return CALLED_NEVER
    return TWO_KINDS if calls == 2 else NONE_IS_AN_ANSWER


def test_each_step_has_its_own_ranges(kata, accelerator):
    upload, ranges = Upload(accelerator), {0: [(2, 5)]}
    kata._set_mm_prefix_range_for_metadata(layers_of(), ranges, upload)
    del ranges[0]
    ranges[3] = [(7, 9)]
    layers = layers_of()
    kata._set_mm_prefix_range_for_metadata(layers, ranges, upload)
    expect_rows(layers, [[0, 0], [0, 0], [0, 0], [7, 9]], STALE)


def test_each_step_uploads_its_ranges(kata, accelerator):
    upload = Upload(accelerator)
    with debubble.record(accelerator) as timeline:
        for _ in range(3):
            kata._set_mm_prefix_range_for_metadata(layers_of(), {0: [(2, 5)]}, upload)
    expect(timeline).that(
        upload.calls >= 3,
        expected="`upload` to be called in each of 3 steps, although their ranges are the same",
        did=f"called it {upload.calls} times" if upload.calls > 1 else "called it once",
        why=EACH_STEP,
    )


def test_micro_batches_have_the_ranges_of_their_own_requests(kata, accelerator):
    micro_batches = [layers_of(0, 2), layers_of(2, 2)]
    upload = Upload(accelerator)
    kata._set_mm_prefix_range_for_metadata(micro_batches, {0: [(2, 5)], 3: [(7, 9)]}, upload)
    likely = "Row 0 of a micro-batch is its own first request, `batch.requests[0]`."
    expect_rows(micro_batches[0], [[2, 5], [0, 0]], likely)
    expect_rows(micro_batches[1], [[0, 0], [7, 9]], likely)


def common_steps(accelerator):
    def step(name, ranges, micro_batches, rows):
        tensors = [
            None if spans is None else torch.tensor([[s, (0, 0)] for s in spans], dtype=torch.int32)
            for spans in rows
        ]
        return Step(name, (ranges, micro_batches), tensors)

    return [
        step("a step of 4 requests", {1: [(2, 5)]}, [(0, 4)], [[(0, 0), (2, 5), (0, 0), (0, 0)]]),
        step("a step of 1 request", {0: [(5, 2**30)]}, [(0, 1)], [[(5, 2**30)]]),
        step("a step without ranges", None, [(0, 4)], [None]),
        step(
            "a step of 2 micro-batches",
            {0: [(2, 5)], 3: [(7, 9)]},
            [(0, 2), (2, 2)],
            [[(2, 5), (0, 0)], [(0, 0), (7, 9)]],
        ),
        step("a step with ranges for later requests alone", {9: [(2, 5)]}, [(0, 4)], [None]),
        step("a step without micro-batches", {1: [(2, 5)]}, [], []),
    ]


def tensors_of_a_step(kata, accelerator):
    """Returns a function that returns the tensor of each micro-batch, which all its layers have."""
    upload = Upload(accelerator)

    def run(ranges, micro_batches):
        layers = [layers_of(first, count, num_layers=4) for first, count in micro_batches]
        one = len(layers) == 1
        kata._set_mm_prefix_range_for_metadata(layers[0] if one else layers, ranges, upload)
        tensors = [{id(m.mm_prefix_range_tensor): m for m in of.values()} for of in layers]
        expect_equal([len(of) for of in tensors], [1] * len(layers), value="the tensors by dict")
        return [next(iter(of.values())).mm_prefix_range_tensor for of in tensors]

    return run


COMMON = Common(make=tensors_of_a_step, steps=common_steps, stale=STALE)


@pytest.mark.parametrize("ranges", [None, {}, {9: [(2, 5)]}], ids=str)
def test_a_step_without_ranges_calls_upload_too(kata, accelerator, ranges):
    upload = Upload(accelerator)
    with debubble.record(accelerator) as timeline:
        kata._set_mm_prefix_range_for_metadata(layers_of(), ranges, upload)
    expect(timeline).that(
        upload.calls == 1,
        expected=f"`upload` to be called once in a step with the ranges {ranges}",
        did=f"called it {upload.calls or 'no'} times",
        why=why_not_once(upload.calls),
    )
