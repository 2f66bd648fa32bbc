"""Tests of the kata `padded_ranges`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    in_a_row,
    left_as_they_were,
    same_objects,
)

REQUESTS = 16
ONE_BY_ONE = (
    "An upload of 8 bytes takes as long as one of 8 KB: each upload costs, not its bytes. With 48 "
    "layers and 16 requests there are 768 uploads a step. Gather the ranges on the host, and "
    "upload them as one tensor."
)
WAITS = (
    "A host that waits for a copy waits until everything queued before it is done, and then the "
    "device waits for the host's next launch. That is a bubble. With pinned memory and "
    "`non_blocking=True`, the copy is left to the device, and the host goes on."
)
ROWS = (
    "Row i belongs to request i, whether it has spans or not: a request without spans has a row "
    "of zeros. The dict may skip requests, and may name some beyond num_seqs."
)
ON_THE_HOST = (
    "A launch takes the host a few microseconds, however little it writes. Rows that are put in "
    "their places on the host take none: the tensor that arrives is the one that is returned."
)
UNFILLED = (
    "The spans are right, and the padding is not: `torch.empty` returns memory as it is, with what "
    "was there before. Pad with zeros: `torch.zeros`, or `zero_()` before you fill the rows."
)
STALE = (
    "Did you keep the tensor of an earlier step? The engine changes its dict in place when a "
    "request comes or goes, so the same dict does not mean the same ranges."
)
OVERWRITTEN = (
    "A queued copy reads its pinned memory when its turn comes. Memory that a later call writes to "
    "by then, in a buffer or in a ring of them, brings that call's ranges. Take fresh pinned "
    "memory in each call, or query the event of its last copy before you write to it again."
)
NONE = (
    "None says that no range matters, and the layers then skip all that ranges cost. A request "
    "without spans has the one span (0, 0); when that is all there is, the answer is None."
)

CASES = [
    ({0: [(2, 5)], 1: [(1, 3)]}, 2, [[[2, 5]], [[1, 3]]]),
    ({1: [(2, 5), (7, 9)]}, 3, [[[0, 0], [0, 0]], [[2, 5], [7, 9]], [[0, 0], [0, 0]]]),
    ({2: [(4, 6)], 0: [(1, 3)]}, 3, [[[1, 3]], [[0, 0]], [[4, 6]]]),
    ({0: [(1, 3)], 7: [(2, 5), (6, 8)]}, 2, [[[1, 3]], [[0, 0]]]),
    ({0: [(0, 1)], 1: []}, 2, [[[0, 1]], [[0, 0]]]),
    ({0: [(3, 3)]}, 1, [[[3, 3]]]),
]


@pytest.mark.parametrize(("ranges", "num_seqs", "rows"), CASES)
def test_each_request_has_its_row(kata, accelerator, ranges, num_seqs, rows):
    with left_as_they_were(ranges=ranges):
        tensor = kata.compute_mm_prefix_range_tensor(ranges, num_seqs, accelerator.device)
    expect_equal(
        tensor,
        torch.tensor(rows, dtype=torch.int32),
        call=f"compute_mm_prefix_range_tensor({ranges}, {num_seqs}, device)",
        likely=unless_unfilled(ROWS),
    )


def test_it_is_on_the_device(kata, accelerator):
    tensor = kata.compute_mm_prefix_range_tensor({0: [(2, 5)]}, 1, accelerator.device)
    expect_equal(
        tensor.device.type,
        accelerator.device.type,
        value="the `device.type` of the tensor",
        likely="The layers' kernels read the tensor: it has to be in the device's memory.",
    )


@pytest.mark.parametrize("ranges", [None, {}, {0: []}, {1: [(0, 0)]}, {9: [(2, 5)]}])
def test_nothing_to_say_is_none(kata, accelerator, ranges):
    expect_equal(
        kata.compute_mm_prefix_range_tensor(ranges, 4, accelerator.device),
        None,
        call=f"compute_mm_prefix_range_tensor({ranges}, 4, device)",
        likely=NONE,
    )


def unless_unfilled(likely):
    """Returns a function that finds the likely cause: `likely`, or that only padding is wrong."""

    def cause(actual, right):
        comparable = isinstance(actual, torch.Tensor) and isinstance(right, torch.Tensor)
        if not comparable or actual.shape != right.shape:
            return likely
        wrong = actual.cpu() != right
        return UNFILLED if not wrong[right != 0].any() and wrong.any() else likely

    return cause


def record_upload(kata, accelerator, requests=REQUESTS):
    """Records the upload of the ranges of n requests, queued after a kernel of 50 microseconds."""
    ranges = {request: [(request, request + 8)] for request in range(requests)}
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        tensor = kata.compute_mm_prefix_range_tensor(ranges, requests, accelerator.device)
    expect_equal(
        tensor[:, 0, 1],
        torch.arange(8, 8 + requests, dtype=torch.int32),
        value=f"the end of each of the {requests} ranges",
        likely="What the host wrote may have been changed before the copy took it.",
    )
    return timeline


def uploads_of(timeline):
    return [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]


def test_all_requests_share_one_upload(kata, accelerator):
    timeline = record_upload(kata, accelerator)
    uploads = uploads_of(timeline)
    expect(timeline).that(
        len(uploads) == 1,
        expected=f"1 upload for the ranges of {REQUESTS} requests",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=ONE_BY_ONE,
    )


def test_more_requests_are_no_more_launches(kata, accelerator):
    few, many = (record_upload(kata, accelerator, requests) for requests in (2, REQUESTS))
    for_few, for_many = (
        [e for e in timeline.events if e.kind == "kernel" or e.copy_kind == "d2d"][1:]
        for timeline in (few, many)
    )
    expect(many).that(
        len(for_many) <= len(for_few),
        expected=f"the ranges of {REQUESTS} requests to take as many kernels as those of 2",
        did=f"takes {len(for_few)} kernels and copies for 2 requests, and {len(for_many)} for "
        f"{REQUESTS}",
        events=for_many,
        why=ON_THE_HOST,
    )


def test_the_upload_is_pinned_and_nobody_waits(kata, accelerator):
    timeline = record_upload(kata, accelerator)
    if accelerator.pin_memory:
        expect(timeline).counts(host_syncs=0, h2d_pageable=0, why=WAITS)
    expect(timeline).no_hazards(
        why="A pinned tensor that is used again may be overwritten while a copy still reads it. "
        "Take a fresh one in each call."
    )


def test_steps_in_a_row_all_arrive(kata, accelerator):
    def step(number):
        ranges = {0: [(number, 500)] * 200, 1: [(7, number + 8)]}
        return kata.compute_mm_prefix_range_tensor(ranges, 8, accelerator.device)

    read, timeline = in_a_row(accelerator, step)
    expect(timeline).no_hazards(why=OVERWRITTEN)
    for number, tensor in enumerate(read):
        right = torch.zeros(8, 200, 2, dtype=torch.int32)
        right[0], right[1, 0] = torch.tensor([number, 500]), torch.tensor([7, number + 8])
        value = f"the tensor of step {number}, of {len(read)} steps in a row,"
        expect_equal(tensor, right, value=value, likely=unless_unfilled(OVERWRITTEN))


def test_a_dict_that_changed_has_other_rows(kata, accelerator):
    for ranges, rows in same_objects(
        [({0: [(2, 5)]}, [[[2, 5]], [[0, 0]]]), ({1: [(7, 9)]}, [[[0, 0]], [[7, 9]]])]
    ):
        tensor = kata.compute_mm_prefix_range_tensor(ranges, 2, accelerator.device)
        call = f"compute_mm_prefix_range_tensor({ranges}, 2, device), changed in place,"
        expect_equal(tensor, torch.tensor(rows, dtype=torch.int32), call=call, likely=STALE)


def common_steps(accelerator):
    large = {1: [(40_000, 2**30), (2**17, 2**17 + 1)]}
    many = {row: [(row, row + 2)] * (1 + row % 3) for row in range(40)}
    padded = torch.zeros(40, 3, 2, dtype=torch.int32)
    for row, spans in many.items():
        padded[row, : len(spans)] = torch.tensor(spans)
    cases = [
        *CASES[:3],
        (many, 40, padded.tolist()),
        CASES[4],
        ({}, 4, None),
        (large, 2, [[[0, 0], [0, 0]], [[40_000, 2**30], [2**17, 2**17 + 1]]]),
        ({0: ((1, 2),)}, 1, [[[1, 2]]]),
        (None, 3, None),
        ({0: [(1, 2)]}, 0, None),
    ]
    return [
        Step(
            f"compute_mm_prefix_range_tensor(ranges of {len(ranges or ())} requests, {num_seqs})",
            (ranges and {row: [*spans] for row, spans in ranges.items()}, num_seqs),
            None if rows is None else torch.tensor(rows, dtype=torch.int32),
        )
        for ranges, num_seqs, rows in cases
    ]


COMMON = Common(
    make=lambda kata, accelerator: (
        lambda ranges, num_seqs: kata.compute_mm_prefix_range_tensor(
            ranges, num_seqs, accelerator.device
        )
    ),
    steps=common_steps,
    sized=lambda accelerator, n: Step("", ({row: [(row, row + 8)] for row in range(n)}, n), None),
    stale=unless_unfilled(STALE),
    likely=unless_unfilled(""),
)
