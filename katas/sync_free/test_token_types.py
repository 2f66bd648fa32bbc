"""Tests of the kata `token_types`."""

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

WHERE = (
    "Each request's ids are 1 from its start on, and 0 before; position `start` itself has a 1. "
    "A request that is not in the dict has zeros alone, and so has one that ends before its start. "
    "The ids of all requests follow each other, and one of length 0 takes no place."
)
WAITS = (
    "A read of a number from the device waits until all that was queued before it is done, even if "
    "it is one read for all requests. The host knows these lengths already. An upload makes the "
    "host wait too, unless it is from pinned memory and with non_blocking=True."
)
TOGETHER = (
    "Each copy costs time, its bytes cost little. Lay the ids of all requests one after the other "
    "on the host, or the numbers that they follow from, and copy them once."
)
ONE_BY_ONE = (
    "A launch takes the host a few microseconds, however little it computes: with 256 requests "
    "that is a millisecond in which the device waits for the host. Compute the ids on the host, or "
    "those of all requests by the same few kernels."
)
OPTIMISTIC = (
    "The tensor has an id for each token that the host has planned for: `optimistic_seq_lens_cpu` "
    "says how many these are. The device may have fewer tokens, but its number is not read."
)
REFUSED = (
    "A start of a request that is not in the batch is a mistake of the caller, and a dict that is "
    "never read there reports nothing. The check that was there costs no wait: keep it."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that a later call writes "
    "to again may bring the ids of the wrong step. Take fresh pinned memory in each."
)
STALE = (
    "Did you keep something of an earlier step? The engine writes each step's lengths and starts "
    "into the same objects, so the same object does not mean the same ids."
)


def arguments(accelerator, lengths, starts):
    """Returns the arguments: lengths on the device and on the host, with room for two more
    requests."""
    seq_lens_cpu = torch.tensor([*lengths, 3, 3], dtype=torch.int32)
    return starts, seq_lens_cpu.to(accelerator.device), seq_lens_cpu, len(lengths)


def ids_of(lengths, starts):
    ids = [
        int(request in starts and position >= starts[request])
        for request, length in enumerate(lengths)
        for position in range(length)
    ]
    return torch.tensor(ids, dtype=torch.int32)


@pytest.mark.parametrize(
    ("lengths", "starts"),
    [
        ([5], {0: 2}),
        ([4, 3], {0: 3, 1: 1}),
        ([2, 2, 2], {1: 1}),
        ([3, 3], {}),
        ([2, 0, 3], {0: 0, 1: 0, 2: 3}),
        ([3, 1], {0: 9}),
        ([3, 4], {0: 9, 1: 2}),
    ],
)
def test_ones_begin_at_the_start(kata, accelerator, lengths, starts):
    kwargs = kata._init_model_kwargs(*arguments(accelerator, lengths, starts))
    expect_equal(sorted(kwargs), ["token_type_ids"], value="the keys of what is returned")
    expect_equal(
        kwargs["token_type_ids"],
        ids_of(lengths, starts),
        value=f"`token_type_ids` of requests of {lengths} tokens, with the starts {starts},",
        likely=WHERE,
        contiguous=True,
    )
    expect_equal(
        kwargs["token_type_ids"].device.type,
        accelerator.device.type,
        value=f"the `device.type` of the ids with the starts {starts}",
        likely="The model reads the ids there, also when all of them are 0.",
    )


def test_the_lengths_are_those_that_the_host_has(kata, accelerator):
    """The device has smaller lengths under speculative decoding."""
    lengths, starts = [5, 3], {0: 2, 1: 1}
    starts, seq_lens, seq_lens_cpu, num_reqs = arguments(accelerator, lengths, starts)
    seq_lens[:2] = torch.tensor([4, 2], dtype=torch.int32).to(accelerator.device)
    ids = kata._init_model_kwargs(starts, seq_lens, seq_lens_cpu, num_reqs)["token_type_ids"]
    value = (
        "`token_type_ids` of 5 and 3 tokens by the host's count, of which the device has 4 and 2,"
    )
    expect_equal(ids, ids_of(lengths, starts), value=value, likely=OPTIMISTIC)


def test_a_prompt_may_be_long(kata, accelerator):
    lengths, starts = [40_000, 300], {0: 33_000, 1: 7}
    ids = kata._init_model_kwargs(*arguments(accelerator, lengths, starts))["token_type_ids"]
    value = f"`token_type_ids` of {lengths} tokens, with the starts {starts},"
    expect_equal(ids, ids_of(lengths, starts), value=value, likely=WHERE)


def test_objects_that_changed_have_other_ids(kata, accelerator):
    for starts, seq_lens, seq_lens_cpu, num_reqs in same_objects(
        arguments(accelerator, *batch) for batch in [([5, 2], {0: 2}), ([3, 4], {1: 1})]
    ):
        lengths, given = seq_lens_cpu[:num_reqs].tolist(), (starts, seq_lens, seq_lens_cpu)
        with left_as_they_were(starts=starts, seq_lens=seq_lens, seq_lens_cpu=seq_lens_cpu):
            ids = kata._init_model_kwargs(*given, num_reqs)["token_type_ids"]
        value = f"`token_type_ids` of {lengths} tokens, in objects that were changed in place,"
        expect_equal(ids, ids_of(lengths, starts), value=value, likely=STALE)


@pytest.mark.parametrize("request_number", [-1, 2])
def test_what_was_refused_is_refused(kata, accelerator, request_number):
    given = arguments(accelerator, [4, 3], {0: 1, request_number: 1})
    expect_refusal(
        lambda: kata._init_model_kwargs(*given),
        f"a start of request {request_number} in a batch of 2 requests",
        why=REFUSED,
    )


def record_step(kata, accelerator, num_reqs):
    """Records a call with requests of 4 tokens each, queued after a kernel of 50 microseconds."""
    lengths, starts = [4] * num_reqs, {request: request % 5 for request in range(num_reqs)}
    args = arguments(accelerator, lengths, starts)
    kata._init_model_kwargs(*args)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata._init_model_kwargs(*args)
    return timeline


def test_nobody_waits(kata, accelerator):
    timeline = record_step(kata, accelerator, num_reqs=16)
    expect(timeline).counts(host_syncs=0, why=WAITS)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=WAITS)


def test_all_requests_share_one_upload(kata, accelerator):
    timeline = record_step(kata, accelerator, num_reqs=16)
    uploads = [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]
    expect(timeline).that(
        len(uploads) <= 1,
        expected="1 upload for 16 requests",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=TOGETHER,
    )


def test_more_requests_are_no_more_launches(kata, accelerator):
    few, many = (record_step(kata, accelerator, number) for number in (2, 16))
    for_few, for_many = (
        [event for event in timeline.events if event.kind == "kernel"][1:]
        for timeline in (few, many)
    )
    expect(many).that(
        len(for_many) == len(for_few),
        expected="the ids of 16 requests to take as many kernels as those of 2",
        did=f"launches {len(for_few)} for 2 requests, and {len(for_many)} for 16",
        events=for_many,
        why=ONE_BY_ONE,
    )


def test_steps_that_follow_at_once_do_not_disturb_each_other(kata, accelerator):
    batches = [([60, 40], {0: step % 60, 1: step % 37}) for step in range(100)]
    steps = [arguments(accelerator, *batch) for batch in batches]
    several, timeline = in_a_row(
        accelerator, lambda step: kata._init_model_kwargs(*steps[step])["token_type_ids"]
    )
    expect(timeline).no_hazards(why=REUSED)
    for number, (ids, batch) in enumerate(zip(several, batches, strict=True)):
        value = f"the ids of step {number}, of 100 steps queued while a kernel was still running,"
        expect_equal(ids, ids_of(*batch), value=value, likely=REUSED)


def common_steps(accelerator):
    batches = [
        ([4, 3], {0: 3, 1: 1}),
        ([40_000, 300, 2], {0: 33_000, 1: 7, 2: 2**40}),
        ([3], {0: 9}),
        ([], {}),
        ([5, 2, 1], {0: -1, 1: -7, 2: 1}),
        ([0], {0: 0}),
        ([1, 0, 2], {2: 0, 0: 0}),
        ([4, 3], {0: 9, 1: 1}),
        ([2, 3, 4], {0: 2**40, 1: 3, 2: 2}),
    ]
    return [
        Step(
            f"_init_model_kwargs of {lengths} tokens and the starts {starts}",
            arguments(accelerator, lengths, dict(starts)),
            {"token_type_ids": ids_of(lengths, starts)},
        )
        for lengths, starts in batches
    ]


COMMON = Common(
    make=lambda kata, accelerator: lambda *given: dict(kata._init_model_kwargs(*given)),
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "", arguments(accelerator, [4] * n, {row: row % 5 for row in range(n)}), None
    ),
    stale=STALE,
)
