"""Tests of the kata `metadata_builder`."""

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
    no_pinned_memory,
)

CHUNK_TOKENS = 64
IN_A_ROW = 80
TENSORS = ("query_start_loc", "has_initial_state", "chunk_indices", "chunk_offsets")
DECODES = (
    "A decode has one token and goes on from a state, so some of its tokens were computed before: "
    "`seq_lens` counts more than this step's. From the first request on that does not, all are "
    "prefills: a prompt of one token has no state to go on from."
)
RECOUNTED = (
    "Next to a speculative request nothing is counted as a decode: a request of one token is a "
    "prefill of one token there. So look at the draft tokens first. Counts and tables that ignore "
    "them belong to other requests."
)
PADDING = (
    "Requests without tokens pad a batch to a size that a graph was captured for. They stay where "
    "they are, at the end: after prefills they are prefills without tokens, which have no chunk."
)
REBASED = (
    "The tokens of the prefills are cut out of the batch, and the kernels count them from the "
    "first one that they get. The starts of the batch count the decodes too: "
    "`query_start_loc[num_decodes:] - num_decode_tokens` does not. And tokens of speculative "
    "requests, wherever they are, are not among them."
)
TABLES = (
    "Both tables are made of the prefills' own starts, which are returned as `query_start_loc`. "
    "With other starts, or with those of other requests, the kernels compute the wrong tokens, and "
    "no error tells."
)
STATES = (
    "A prefill goes on from a state if tokens of its request were computed before: if `seq_lens` "
    "is more than its tokens in this step. Its place in the tensor is its place among the prefills."
)
NONE = "Without prefills no kernel needs starts or tables: leave all four tensors None."
ASKED = (
    "The host can tell which requests are decodes from the fields that end in `_cpu`. Reading from "
    "the device waits until it has done all that was queued before, each time, and an upload from "
    "pageable memory waits as well."
)
TOGETHER = (
    "All four tensors are known at the same time. Each upload is a copy that the device does by "
    "itself, and a few microseconds of the host: lay them side by side in one pinned tensor, copy "
    "it once, and cut it apart on the device by slices and views."
)
NOTHING_TO_SEND = (
    "Most steps have only decodes. They need no starts and no tables of prefills, so there is "
    "nothing to upload, and nothing to read."
)
REUSED = (
    "A queued copy reads its buffer when its turn comes. Pinned memory that the next step writes "
    "to again may bring the prefills of the wrong step. Take fresh pinned memory in each."
)


class Batch:
    """The requests of a step on the device and on the host, with the fields of GDNCommonMetadata.

    `requests` are (tokens in this step, tokens computed before, draft tokens or -1).
    """

    def __init__(self, accelerator, requests):
        query_lens, computed, drafts = (
            [request[place] for request in requests] for place in range(3)
        )
        self.query_start_loc_cpu = starts_of(query_lens)
        seq_lens = [sum(counts) for counts in zip(query_lens, computed, strict=True)]
        self.seq_lens_cpu = torch.tensor(seq_lens, dtype=torch.int32)
        self.num_draft_tokens_cpu = torch.tensor(drafts, dtype=torch.int32)
        slots = torch.arange(3 * len(requests), dtype=torch.int32).view(-1, 3)
        self.query_start_loc = self.query_start_loc_cpu.to(accelerator.device)
        self.seq_lens = self.seq_lens_cpu.to(accelerator.device)
        self.state_indices = slots.to(accelerator.device)
        self.num_actual_tokens = sum(query_lens)


def words(request):
    """Returns what a failing test calls the request."""
    tokens, computed, drafts = request
    if drafts >= 0:
        return f"speculative of {tokens}"
    if not tokens:
        return "padding"
    if tokens == 1 and computed:
        return "decode"
    return f"{tokens} of a prompt" + (", continued" if computed else "")


def decode():
    return 1, 40, -1


def prompt(tokens, computed=0):
    return tokens, computed, -1


def speculative(drafts):
    return 1 + drafts, 40, drafts


PADDED = (0, 0, -1)
MIXED = [decode(), decode(), decode(), prompt(130), prompt(70, computed=64)]
BATCHES = {
    "prefills": [prompt(65), prompt(5)],
    "mixed": MIXED,
    "4 decodes, 64 and 5": [decode()] * 4 + [prompt(64), prompt(5)],
    "a prompt of one token": [decode(), prompt(1), prompt(66)],
    "a decode behind a prefill": [decode(), prompt(3), decode()],
    "one token computed before": [(1, 1, -1), prompt(66, computed=1), prompt(3)],
    "padded": [decode(), prompt(100), PADDED, PADDED],
}
SPECULATIVE = {
    "decodes next to drafts": [speculative(2), decode(), decode()],
    "drafts in the midst": [
        decode(),
        speculative(1),
        prompt(70),
        speculative(0),
        prompt(3),
        PADDED,
    ],
}
WITHOUT_PREFILLS = {
    "decodes": [decode()] * 3,
    "padded decodes": [decode(), PADDED],
    "drafts alone": [speculative(2), speculative(0)],
    "nobody": [],
}
of = lambda batches: pytest.mark.parametrize("requests", batches.values(), ids=batches.keys())


def starts_of(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def split(requests):
    """Returns (number of decodes, prefills in their order)."""
    others = [request for request in requests if request[2] < 0]
    num_decodes = 0
    if len(others) == len(requests):
        kinds = [tokens == 1 and computed > 0 for tokens, computed, _ in others]
        num_decodes = [*kinds, False].index(False)
    prefills = others[num_decodes:]
    return num_decodes, prefills if any(tokens for tokens, *_ in prefills) else []


def build(kata, accelerator, requests):
    batch = Batch(accelerator, requests)
    return kata.build_prefill_metadata(batch, batch.num_draft_tokens_cpu)


def expect_metadata(metadata, requests):
    """Checks every field of the metadata."""
    num_decodes, prefills = split(requests)
    lengths = [tokens for tokens, *_ in prefills]
    is_speculative = any(drafts >= 0 for *_, drafts in requests)
    batch = f"the batch [{', '.join(map(words, requests))}]"

    def field(name, right, cause):
        value = f"`{name}` of {batch}"
        expect_equal(getattr(metadata, name), right, value=value, likely=cause, contiguous=True)

    field("num_decodes", num_decodes, RECOUNTED if is_speculative else DECODES)
    counted = PADDING if PADDED in requests else RECOUNTED if is_speculative else DECODES
    field("num_prefills", len(prefills), counted)
    field("num_prefill_tokens", sum(lengths), RECOUNTED if is_speculative else DECODES)
    if not prefills:
        for name in TENSORS:
            field(name, None, NONE)
        return
    rows = [
        (sequence, chunk)
        for sequence, length in enumerate(lengths)
        for chunk, _ in enumerate(range(0, length, CHUNK_TOKENS))
    ]
    offsets = torch.tensor([0, *(-(-length // CHUNK_TOKENS) for length in lengths)]).cumsum(0)
    made_of = RECOUNTED if is_speculative else TABLES

    def starts_differ(actual, expected):
        as_many = isinstance(actual, torch.Tensor) and len(actual) == len(expected)
        return REBASED if as_many else RECOUNTED

    field("query_start_loc", starts_of(lengths), starts_differ)
    field("has_initial_state", torch.tensor([computed > 0 for _, computed, _ in prefills]), STATES)
    field("chunk_indices", torch.tensor(rows, dtype=torch.int32), made_of)
    field("chunk_offsets", offsets, made_of)


@of(BATCHES)
def test_prefills_are_found_and_counted_from_their_own_first_token(kata, accelerator, requests):
    expect_metadata(build(kata, accelerator, requests), requests)


@of(SPECULATIVE)
def test_next_to_drafts_decodes_are_prefills(kata, accelerator, requests):
    expect_metadata(build(kata, accelerator, requests), requests)


@of(WITHOUT_PREFILLS)
def test_without_prefills_there_are_no_tensors(kata, accelerator, requests):
    expect_metadata(build(kata, accelerator, requests), requests)


def test_the_tensors_are_on_the_device(kata, accelerator):
    metadata = build(kata, accelerator, MIXED)
    for name in TENSORS:
        expect_equal(
            getattr(metadata, name).device.type,
            accelerator.device.type,
            value=f"the `device.type` of `{name}`",
            likely="The kernels read it: it has to be in the device's memory.",
        )


def tensors_of(metadata):
    """Returns the metadata's tensors on the CPU, after everything is done."""
    return [getattr(metadata, name).cpu() for name in TENSORS]


def record_build(kata, accelerator, requests):
    """Records a build, queued after a kernel of 50 microseconds."""
    build(kata, accelerator, requests)
    batch = Batch(accelerator, requests)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.build_prefill_metadata(batch, batch.num_draft_tokens_cpu)
    return timeline


@of({"mixed": MIXED, "drafts in the midst": SPECULATIVE["drafts in the midst"]})
def test_nobody_waits(kata, accelerator, requests):
    timeline = record_build(kata, accelerator, requests)
    expect(timeline).counts(host_syncs=0, d2h=0, why=ASKED)
    if accelerator.pin_memory:
        expect(timeline).counts(h2d_pageable=0, why=ASKED)


def uploads_of(timeline):
    return [event for event in timeline.events if (event.copy_kind or "").startswith("h2d")]


def test_everything_is_sent_together(kata, accelerator):
    timeline = record_build(kata, accelerator, MIXED)
    uploads = uploads_of(timeline)
    expect(timeline).that(
        len(uploads) <= 1,
        expected="1 upload for the starts, the states and both tables",
        did=f"made {len(uploads)} uploads",
        events=uploads,
        why=TOGETHER,
    )


def test_without_prefills_nothing_is_sent(kata, accelerator):
    timeline = record_build(kata, accelerator, [decode()] * 3)
    uploads = uploads_of(timeline)
    expect(timeline).that(
        not uploads,
        expected="no upload in a step of decodes alone",
        did=f"made {len(uploads)}",
        events=uploads,
        why=NOTHING_TO_SEND,
    )


def test_steps_that_follow_at_once_do_not_disturb_each_other(kata, accelerator):
    steps = [
        [decode()] * (step % 3) + [prompt(2 + 7 * step), prompt(64)] for step in range(IN_A_ROW)
    ]
    alone = [tensors_of(build(kata, accelerator, requests)) for requests in steps]
    batches = [Batch(accelerator, requests) for requests in steps]

    def call(step):
        metadata = kata.build_prefill_metadata(batches[step], batches[step].num_draft_tokens_cpu)
        return [getattr(metadata, name) for name in TENSORS]

    built, timeline = in_a_row(accelerator, call, IN_A_ROW)
    expect(timeline).no_hazards(why=REUSED)
    for number, tensors in enumerate(built):
        for name, found, right in zip(TENSORS, tensors, alone[number], strict=True):
            value = f"`{name}` of step {number}, of {IN_A_ROW} queued while a kernel still ran,"
            expect_equal(found, right, value=value, likely=REUSED)


def test_it_works_where_nothing_can_be_pinned(kata, accelerator):
    with no_pinned_memory(accelerator):
        expect_metadata(build(kata, accelerator, BATCHES["prefills"]), BATCHES["prefills"])


def test_its_arguments_stay_as_they_are(kata, accelerator):
    batch = Batch(accelerator, MIXED)
    drafts = batch.num_draft_tokens_cpu
    with left_as_they_were(**vars(batch)):
        kata.build_prefill_metadata(batch, drafts)


def common_steps(accelerator):
    batches = {
        "a mixed step": MIXED,
        "1 prompt": [prompt(5)],
        "an empty step": [],
        "decodes": [decode()] * 3,
        "drafts": SPECULATIVE["drafts in the midst"],
        "long prompts": [prompt(40_000, computed=2**20), prompt(1)],
        "a padded step": [decode(), prompt(100), PADDED],
    }
    steps = []
    for name, requests in batches.items():
        batch = Batch(accelerator, requests)
        drafts = batch.num_draft_tokens_cpu
        arguments = batch.query_start_loc_cpu, batch.seq_lens_cpu, drafts, batch
        steps.append(Step(f"build_prefill_metadata of {name}", arguments, metadata_of(requests)))
    return steps


def metadata_of(requests):
    """Returns the fields of the metadata, in their order."""
    num_decodes, prefills = split(requests)
    lengths = [tokens for tokens, *_ in prefills]
    if not prefills:
        return num_decodes, 0, 0, None, None, None, None
    rows = [(s, c) for s, n in enumerate(lengths) for c in range(-(-n // CHUNK_TOKENS))]
    chunks = [-(-length // CHUNK_TOKENS) for length in lengths]
    return (
        num_decodes,
        len(prefills),
        sum(lengths),
        starts_of(lengths),
        torch.tensor([computed > 0 for _, computed, _ in prefills]),
        torch.tensor(rows, dtype=torch.int32),
        torch.tensor([0, *chunks]).cumsum(0),
    )


def builder(kata, accelerator):
    def build_from(query_start_loc_cpu, seq_lens_cpu, drafts_cpu, batch):
        batch.query_start_loc_cpu, batch.seq_lens_cpu = query_start_loc_cpu, seq_lens_cpu
        return kata.build_prefill_metadata(batch, drafts_cpu)

    return build_from


def sized_step(accelerator, n):
    batch = Batch(accelerator, [prompt(65)] * n)
    arguments = batch.query_start_loc_cpu, batch.seq_lens_cpu, batch.num_draft_tokens_cpu, batch
    return Step("", arguments, None)


COMMON = Common(
    make=builder,
    steps=common_steps,
    sized=sized_step,
    stale="Each step has requests of its own, and metadata of its own.",
)
