"""Tests of the kata `micro_batches`."""

import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    left_as_they_were,
    same_objects,
)

PROMPT, DECODE = range(64), range(64, 65)
ONE_EACH = (
    "The rows of all micro-batches fit into one tensor, one micro-batch after the other, and that "
    "takes one upload. Each further one is a copy that the layers wait for."
)
REKEYED = (
    "The keys of `ranges` count through the whole step, the rows of a micro-batch begin at 0. Row "
    "i of a micro-batch belongs to request `batch.requests[i]`. In the one tensor its rows begin "
    "where the rows of the micro-batches before it end."
)
ONE_IS_ENOUGH = (
    "The ranges matter as soon as any request of any micro-batch has a span that holds one of its "
    "scheduled positions: text beside it changes nothing."
)
PADDING = (
    "A micro-batch may have more rows than requests, to reach a size that a graph was captured "
    "with. These rows hold no request, and so no span: not even that of the request which begins "
    "the next micro-batch."
)


VIEWS = (
    "Rows that lie one after the other can be cut out as views: slicing and `split` copy nothing. "
    "An index made of a list is uploaded first, and the host waits for it; and a gather or a clone "
    "is a kernel and a copy, for each micro-batch."
)
ALWAYS = (
    "`upload` decides that a step has no tensor, and what a graph reads then: it may have to write "
    "zeros where the last step left ranges. So it is called once in every step: with None where no "
    "range matters."
)
STALE = (
    "Did you keep the tensors of an earlier step? The engine changes its dict in place when a "
    "request comes or goes, so the same dict does not mean the same ranges."
)


class Batch:
    def __init__(self, first, scheduled, padding=0):
        self.requests = range(first, first + len(scheduled))
        self.scheduled = tuple(scheduled)
        self.num_seqs = len(scheduled) + padding


class Upload:
    """An upload function with one pinned upload in each call; it returns None without any range."""

    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.calls = []

    def __call__(self, ranges, num_seqs):
        self.calls.append((ranges, num_seqs))
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


def expect_spans(tensors, spans_by_batch, likely):
    """Checks the first span of each row, for each micro-batch; rows of zeros may be None."""
    expect_equal(
        len(tensors),
        len(spans_by_batch),
        value="the number of tensors",
        likely=likely,
    )
    for number, (tensor, spans) in enumerate(zip(tensors, spans_by_batch, strict=True)):
        wanted = torch.tensor(spans, dtype=torch.int32)
        if tensor is None and not wanted.any():
            continue
        expect_equal(
            tensor[:, 0] if tensor is not None else None,
            wanted,
            value=f"the first span of each row of micro-batch {number}",
            likely=likely,
        )


def test_each_micro_batch_has_its_own_rows(kata, accelerator):
    batches = [Batch(0, [PROMPT] * 2), Batch(2, [PROMPT]), Batch(3, [PROMPT] * 3)]
    ranges = {1: [(2, 5)], 2: [(1, 3)], 5: [(7, 9)]}
    tensors = kata.range_tensors_by_micro_batch(ranges, batches, Upload(accelerator))
    spans = [[[0, 0], [2, 5]], [[1, 3]], [[0, 0], [0, 0], [7, 9]]]
    expect_spans(tensors, spans, REKEYED)


def test_one_request_with_a_span_is_enough(kata, accelerator):
    batches = [Batch(0, [PROMPT] * 2), Batch(2, [PROMPT] * 2)]
    tensors = kata.range_tensors_by_micro_batch({3: [(2, 5)]}, batches, Upload(accelerator))
    expect_spans(tensors, [[[0, 0], [0, 0]], [[0, 0], [2, 5]]], ONE_IS_ENOUGH)


def test_a_dict_that_changed_has_other_rows(kata, accelerator):
    batches = [Batch(0, [PROMPT]), Batch(1, [PROMPT])]
    steps = [({0: [(2, 5)]}, [[[2, 5]], [[0, 0]]]), ({1: [(7, 9)]}, [[[0, 0]], [[7, 9]]])]
    for ranges, spans in same_objects(steps):
        with left_as_they_were(ranges=ranges):
            tensors = kata.range_tensors_by_micro_batch(ranges, batches, Upload(accelerator))
        expect_spans(tensors, spans, STALE)


def test_padding_rows_are_zero(kata, accelerator):
    batches = [Batch(0, [PROMPT] * 2, padding=2), Batch(2, [PROMPT] * 2, padding=1)]
    ranges = {request: [(request + 1, 9)] for request in range(4)}
    tensors = kata.range_tensors_by_micro_batch(ranges, batches, Upload(accelerator))
    spans = [[[1, 9], [2, 9], [0, 0], [0, 0]], [[3, 9], [4, 9], [0, 0]]]
    expect_spans(tensors, spans, PADDING)


def test_all_micro_batches_share_one_upload(kata, accelerator):
    batches = [Batch(first, [PROMPT] * 2) for first in range(0, 8, 2)]
    ranges = {request: [(request, 9)] for request in range(8)}
    with debubble.record(accelerator) as timeline:
        tensors = kata.range_tensors_by_micro_batch(ranges, batches, Upload(accelerator))
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) == 1,
        expected="1 upload for 4 micro-batches",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        quoted=[copy for copy in uploads if copy.source and copy.source.file != __file__],
        why=ONE_EACH,
    )
    del tensors


def test_nobody_waits(kata, accelerator):
    batches = [Batch(first, [PROMPT] * 2) for first in range(0, 8, 2)]
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        tensors = kata.range_tensors_by_micro_batch({3: [(2, 5)]}, batches, Upload(accelerator))
    expect(timeline).counts(host_syncs=0, why=VIEWS)
    expect(timeline).counts(kernels=1, d2d=0, why=VIEWS)  # 1: the sleep
    del tensors


def test_a_step_that_only_decodes_uploads_nothing(kata, accelerator):
    batches = [Batch(0, [DECODE] * 2), Batch(2, [DECODE] * 2)]
    ranges = {request: [(2, 5)] for request in range(4)}
    upload = Upload(accelerator)
    with debubble.record(accelerator) as timeline:
        tensors = kata.range_tensors_by_micro_batch(ranges, batches, upload)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        not uploads,
        expected="no upload in a step whose tokens lie after all spans",
        did="uploads the ranges all the same",
        why="A request keeps its spans while it decodes, but no span holds the tokens of this "
        "step any more. `touches(spans, positions)` says so, with `batch.scheduled`.",
    )
    expect_equal(tensors, [None, None], call="range_tensors_by_micro_batch of a decode step")
    value = "what `upload` is called with in a decode step of 4 requests"
    expect_equal(upload.calls, [(None, 4)], value=value, likely=ALWAYS)


def common_steps(accelerator):
    def step(name, ranges, batches, spans):
        tensors = [
            None if rows is None else torch.tensor([[s, (0, 0)] for s in rows], dtype=torch.int32)
            for rows in spans
        ]
        return Step(f"range_tensors_by_micro_batch of {name}", (ranges, batches), tensors)

    two = [Batch(0, [PROMPT] * 2), Batch(2, [PROMPT])]
    padded = [Batch(0, [PROMPT] * 3, padding=2), Batch(3, [PROMPT], padding=1)]
    far = [Batch(0, [range(2**20, 2**20 + 64)])]
    return [
        step("3 requests", {1: [(2, 5)], 2: [(1, 3)]}, two, [[(0, 0), (2, 5)], [(1, 3)]]),
        step("a padded step", {3: [(4, 6)]}, padded, [[(0, 0)] * 5, [(4, 6), (0, 0)]]),
        step("1 request far into its prompt", {0: [(2**20, 2**30)]}, far, [[(2**20, 2**30)]]),
        step("a step without ranges", None, two, [None, None]),
        step("no micro-batches", {1: [(2, 5)]}, [], []),
        step("3 requests again", {0: [(7, 9)]}, two, [[(7, 9), (0, 0)], [(0, 0)]]),
    ]


COMMON = Common(
    make=lambda kata, accelerator: (
        lambda ranges, batches: kata.range_tensors_by_micro_batch(
            ranges, batches, Upload(accelerator)
        )
    ),
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "",
        ({row: [(row, 60)] for row in range(n)}, [Batch(row, [PROMPT]) for row in range(n)]),
        None,
    ),
    likely=REKEYED,
    stale=STALE,
)
