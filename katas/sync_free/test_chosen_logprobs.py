"""Tests of the kata `chosen_logprobs`."""

import pytest
import torch

import debubble
from debubble.exercises import (
    Common,
    Step,
    expect,
    expect_equal,
    expect_refusal,
    in_a_row,
    left_as_they_were,
    same_objects,
)

ROWS = 16
VOCAB = 1000
LAYOUT = (
    "Row i belongs to request i, whether it asks for anything or not: first its sampled token, "
    "then the ids that it asks for, in their order, then zeros."
)
COUNTS = (
    "counts[i] is the number of ids that row i needs: the sampled token, which each row has, and "
    "the ids that it asks for. The rest of the row is zeros, and 0 is an id like any other."
)
NONE = (
    "If no request asks for logprobs, later steps are skipped altogether, and None tells them so."
)
OUTSIDE = (
    "A row that is not in the batch belongs to no request, even if it asks for nothing: the "
    "caller has mixed up two steps. The check that was there reads all rows: keep it in front."
)
UNKNOWN = (
    "A kernel would read the logit of such an id all the same, from the next row or from beyond "
    "the tensor. The host knows what is asked for, so it can refuse before anything is sent."
)
ONE_BY_ONE = (
    "Each upload costs time, its bytes cost little. Lay the ids of all rows and their numbers into "
    "one tensor on the host, upload it, and cut it apart on the device: a slice copies nothing."
)
WAITS = (
    "The sampled tokens of this step may not be computed yet. A wait for them, or for a copy that "
    "is queued after them, is a wait for the whole step. Then the device waits for the next "
    "launch: a bubble. Upload from pinned memory, and fill column 0 on the device."
)
EARLY = (
    "`sampled` is there once the device has come that far, and a copy of it to the host not before "
    "that. The host need not know these ids: a copy from device tensor to device tensor is queued."
)
OVERWRITTEN = (
    "A queued copy reads its pinned memory when its turn comes. If a later call has written to "
    "the same memory by then, several steps get the ids of one. Fresh pinned memory in each "
    "call is safe: PyTorch keeps it until its copy is done."
)

STALE = (
    "Did you keep something of an earlier step? Requests come and go, and the engine changes its "
    "dict in place."
)

CASES = [
    ({0: [4, 7], 1: [9]}, [1, 2], [[1, 4, 7], [2, 9, 0]], [3, 2]),
    ({1: [5]}, [1, 2, 3], [[1, 0], [2, 5], [3, 0]], [1, 2, 1]),
    ({2: [6, 6, 8], 0: [0]}, [1, 2, 3], [[1, 0, 0, 0], [2, 0, 0, 0], [3, 6, 6, 8]], [2, 1, 4]),
    ({0: [], 1: [3]}, [7, 8], [[7, 0], [8, 3]], [1, 2]),
    ({1: []}, [7, 8], [[7], [8]], [1, 1]),
]


@pytest.mark.parametrize(("requested", "sampled", "ids", "counts"), CASES)
def test_each_row_has_its_ids(kata, accelerator, requested, sampled, ids, counts):
    on_device = torch.tensor(sampled, device=accelerator.device)
    chosen = kata.chosen_tokens(requested, on_device, VOCAB) or (None, None)
    called = f"of chosen_tokens({requested}, {sampled}, {VOCAB})"
    right = torch.tensor(ids, dtype=torch.int32)
    value = f"the ids {called}"
    expect_equal(chosen[0], right, value=value, likely=early_or_misplaced, contiguous=True)
    right = torch.tensor(counts, dtype=torch.int32)
    value = f"the counts {called}"
    expect_equal(chosen[1], right, value=value, likely=COUNTS, contiguous=True)


def early_or_misplaced(ids, right):
    """Tells a wrong layout from ids where only the sampled tokens are wrong."""
    if ids is None or ids.shape != right.shape or (ids[:, 1:].cpu() != right[:, 1:]).any():
        return LAYOUT
    return f"{LAYOUT} {EARLY}"


def test_a_dict_that_changed_has_other_ids(kata, accelerator):
    sampled = torch.tensor([1, 2], device=accelerator.device)
    for requested, ids in same_objects(
        [({0: [4]}, [[1, 4], [2, 0]]), ({1: [5]}, [[1, 0], [2, 5]]), ({1: [7]}, [[1, 0], [2, 7]])]
    ):
        with left_as_they_were(requested=requested, sampled=sampled):
            chosen = kata.chosen_tokens(requested, sampled, VOCAB)
        value = f"the ids of chosen_tokens({requested}, ...), whose dict was changed in place,"
        expect_equal(chosen[0], torch.tensor(ids, dtype=torch.int32), value=value, likely=STALE)


def test_it_is_none_when_nobody_asks(kata, accelerator):
    sampled = torch.tensor([1, 2], device=accelerator.device)
    chosen = kata.chosen_tokens({}, sampled, VOCAB)
    expect_equal(chosen, None, call="chosen_tokens({}, [1, 2], 1000)", likely=NONE)


@pytest.mark.parametrize("requested", [{2: [3]}, {1: [3], -1: [4]}, {0: [3], 9: []}], ids=str)
def test_rows_outside_of_the_batch_are_refused(kata, accelerator, requested):
    sampled = torch.tensor([1, 2], device=accelerator.device)
    call = f"chosen_tokens({requested}, [1, 2], {VOCAB})"
    expect_refusal(lambda: kata.chosen_tokens(requested, sampled, VOCAB), call, why=OUTSIDE)


@pytest.mark.parametrize("token_id", [-1, VOCAB])
def test_ids_outside_of_the_vocabulary_are_refused(kata, accelerator, token_id):
    sampled = torch.tensor([1, 2], device=accelerator.device)
    refused = False
    with debubble.record(accelerator) as timeline:
        try:
            kata.chosen_tokens({1: [3, token_id]}, sampled, VOCAB)
        except ValueError:
            refused = True
    expect(timeline).that(
        refused,
        expected=f"a ValueError for token {token_id} of a vocabulary of {VOCAB}",
        did="took it for an id",
        why=UNKNOWN,
    )


def record_step(kata, accelerator):
    """Records a call while tokens are still being sampled: of 16 rows, each requests one id more
    than the row before."""
    requested = {row: list(range(row)) for row in range(ROWS)}
    sampled = torch.zeros(ROWS, dtype=torch.int64, device=accelerator.device)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.2 if accelerator.modelled else 20.0)
        sampled.fill_(77)
        ids, counts = kata.chosen_tokens(requested, sampled, VOCAB)
    right = torch.arange(1, ROWS + 1, dtype=torch.int32)
    expect_equal(counts, right, value="the counts of 16 rows", likely=COUNTS)
    return ids, timeline


def test_the_sampled_tokens_are_those_that_the_device_will_have(kata, accelerator):
    ids, timeline = record_step(kata, accelerator)
    expect(timeline).no_hazards(why=EARLY)
    right = torch.full((ROWS,), 77, dtype=torch.int32)
    expect_equal(
        ids[:, 0], right, value="column 0, which the device was about to fill,", likely=EARLY
    )


def test_all_rows_share_one_upload(kata, accelerator):
    _, timeline = record_step(kata, accelerator)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) <= 1,
        expected=f"1 upload for the ids of {ROWS} rows",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=ONE_BY_ONE,
    )


def test_nobody_waits(kata, accelerator):
    _, timeline = record_step(kata, accelerator)
    expect(timeline).counts(host_syncs=0, why=WAITS)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=WAITS)


def test_each_of_many_steps_in_flight_has_its_own_ids(kata, accelerator):
    sampled = torch.zeros(2, dtype=torch.int64, device=accelerator.device)
    steps, timeline = in_a_row(
        accelerator,
        lambda step: kata.chosen_tokens({1: [step, *range(200, 230)]}, sampled, VOCAB),
    )
    expect(timeline).no_hazards(why=OVERWRITTEN)
    for step, (ids, counts) in enumerate(steps):
        value = f"the ids of row 1 in step {step}, of {len(steps)} in flight at once,"
        right = torch.tensor([0, step, *range(200, 230)], dtype=torch.int32)
        expect_equal(ids[1], right, value=value, likely=OVERWRITTEN)
        value = f"the counts of step {step}, of {len(steps)} in flight at once,"
        right = torch.tensor([1, 32], dtype=torch.int32)
        expect_equal(counts, right, value=value, likely=OVERWRITTEN)


def common_steps(accelerator):
    cases = [
        *CASES,
        ({}, [1, 2], None, None),
        ({2: [9, 4, 999, 4], 0: [5]}, [1, 2, 3], None, [2, 1, 5]),
        ({row: [row, 0] for row in reversed(range(8))}, [3] * 8, None, [3] * 8),
        ({0: (8, 7)}, [999], None, [3]),
        ({0: (3, 999)}, [0], None, [3]),
    ]
    steps = []
    for number, (requested, sampled, _, counts) in enumerate(cases):
        dtype = (torch.int64, torch.int32, torch.int16)[number % 3]
        width = max(counts or [1])
        ids = [[token, *requested.get(row, ())] for row, token in enumerate(sampled)]
        ids = [[*row, *[0] * (width - len(row))] for row in ids]
        right = counts and (
            torch.tensor(ids, dtype=torch.int32),
            torch.tensor(counts, dtype=torch.int32),
        )
        given = torch.tensor(sampled, dtype=dtype).to(accelerator.device)
        call = f"chosen_tokens({requested}, {sampled} as {dtype})"
        own = {row: type(of)(of) for row, of in requested.items()}
        steps.append(Step(call, (own, given, VOCAB), right))
    return steps


COMMON = Common(
    make=lambda kata, accelerator: kata.chosen_tokens,
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "",
        (
            {row: [row, 7] for row in range(n)},
            torch.zeros(n, dtype=torch.int64, device=accelerator.device),
            VOCAB,
        ),
        None,
    ),
    stale=STALE,
)
