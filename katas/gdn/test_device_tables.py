"""Tests of the kata `device_tables`."""

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

FEW, MANY = 4, 64
NO_TRITON = (
    "our solution of the kata device_tables is a Triton kernel, and Triton is not installed here: "
    "it needs Linux, in a container, in WSL 2 or on another host; yours may do without"
)
ROWS = (
    "The host knows two numbers, so the shape follows from them: most chunks there are when all "
    "sequences but one have a single token. `most_chunks(num_seqs, num_tokens, chunk_size)` "
    "returns it, and the host need not know how many of the rows are chunks."
)
COMPACTED = (
    "A row belongs to the first sequence of which not all chunks come before it: a search goes "
    "past all offsets that are as large as the row's number, `torch.searchsorted(offsets[1:], row, "
    "right=True)`. A sequence without tokens has no row, and still keeps its number: a count of "
    "the rows with chunk 0, `(chunk == 0).cumsum(0) - 1`, misses it."
)
BEHIND = (
    "Rows from `offsets[-1]` on are no chunk. A kernel that finds (-1, -1) returns at once; with "
    "any other sequence there it would compute tokens that another program computes as well."
)
OFFSETS = (
    "The numbers of chunks before each sequence, then the number of all chunks: each length "
    "rounded up by itself, then `cumsum`, with a zero in front."
)
STAYS = (
    "The lengths are on the device, and the tables are needed there. `.item()`, `.tolist()` and "
    "`torch.tensor(..., device=...)` make the host wait; so does every call whose result has a "
    "size that only the device knows: `nonzero`, an index that is a mask, and "
    "`repeat_interleave` without `output_size`."
)
CAPTURED = (
    "A replay runs the kernels of the capture, on the same addresses: what the host computed "
    "meanwhile, and what it kept from an earlier call, is not computed again. Make both tables by "
    "kernels that read `cu_seqlens`, in each call."
)
ONE_BY_ONE = (
    "A launch takes the host a few microseconds, however little it computes. The operators that "
    "take a whole tensor do all rows by one."
)


@pytest.fixture(autouse=True)
def triton_where_our_kernel_is_run(request):
    """Skips our solution, a Triton kernel, if Triton is missing. A learner's PyTorch operators run
    everywhere."""
    if request.config.getoption("impl") == "solutions":
        pytest.importorskip("triton", reason=NO_TRITON)


def starts_of(lengths):
    return torch.tensor([0, *lengths]).cumsum(0).int()


def most_chunks(lengths, chunk_size):
    """Returns the most chunks: all sequences but one have a single token, if there are enough
    tokens."""
    num_seqs, num_tokens = len(lengths), sum(lengths)
    ones = min(max(num_seqs - 1, 0), num_tokens)
    return ones + len(range(0, num_tokens - ones, chunk_size))


def right_tables(lengths, chunk_size=64):
    rows, offsets = [], [0]
    for sequence, length in enumerate(lengths):
        rows += [(sequence, chunk) for chunk, _ in enumerate(range(0, length, chunk_size))]
        offsets.append(len(rows))
    rows += [(-1, -1)] * (most_chunks(lengths, chunk_size) - len(rows))
    return torch.tensor(rows, dtype=torch.int32).view(-1, 2), torch.tensor(offsets)


def likely_cause(num_chunks):
    """Returns a function that tells why a table with `num_chunks` chunks is wrong."""

    def cause(actual, expected):
        if not isinstance(actual, torch.Tensor) or actual.shape != expected.shape:
            return ROWS
        same = actual[:num_chunks].cpu() == expected[:num_chunks]
        return BEHIND if same.all() else COMPACTED

    return cause


def expect_tables(tables, lengths, chunk_size=64, where="", likely=None):
    rows, offsets = right_tables(lengths, chunk_size)
    of = f"of sequences of {lengths} tokens{where}, in chunks of {chunk_size},"
    cause = likely or likely_cause(offsets[-1])
    for name, right, likely_one in (
        ("chunk_indices", rows, cause),
        ("chunk_offsets", offsets, likely or OFFSETS),
    ):
        value = f"`{name}` {of}"
        expect_equal(getattr(tables, name), right, value=value, likely=likely_one, contiguous=True)


def make(kata, accelerator, lengths, *chunk_size):
    cu_seqlens = starts_of(lengths).to(accelerator.device)
    with left_as_they_were(cu_seqlens=cu_seqlens):
        return kata.search_chunk_tables(cu_seqlens, sum(lengths), *chunk_size)


@pytest.mark.parametrize(
    "lengths",
    [
        [5],
        [64],
        [65],
        [63, 1],
        [128, 0, 128],
        [0, 130, 0, 0, 64, 0],
        [1] * 6,
        [1, 70, 1],
        [0, 0],
        [64 * 300, 5],
    ],
    ids=str,
)
def test_tables_of_any_lengths(kata, accelerator, lengths):
    expect_tables(make(kata, accelerator, lengths), lengths)


@pytest.mark.parametrize("chunk_size", [16, 32, 128])
def test_chunks_may_be_of_another_size(kata, accelerator, chunk_size):
    lengths = [1, chunk_size - 1, chunk_size, chunk_size + 1, 0, 130]
    expect_tables(make(kata, accelerator, lengths, chunk_size), lengths, chunk_size)


def record_call(kata, accelerator, num_seqs=FEW):
    """Records a call with sequences of two chunks each, queued after a kernel of 50
    microseconds."""
    make(kata, accelerator, [65] * num_seqs)
    cu_seqlens = starts_of([65] * num_seqs).to(accelerator.device)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.05)
        kata.search_chunk_tables(cu_seqlens, 65 * num_seqs)
    return timeline


def expect_nothing_travels(timeline):
    expect(timeline).counts(host_syncs=0, d2h=0, h2d_pinned=0, h2d_pageable=0, why=STAYS)


def test_nobody_waits_and_nothing_is_sent(kata, accelerator):
    expect_nothing_travels(record_call(kata, accelerator))


def test_a_replay_makes_the_tables_of_its_step(kata, accelerator):
    cu_seqlens = starts_of([70, 0, 58]).to(accelerator.device)
    kata.search_chunk_tables(cu_seqlens, 128)
    # A step with a wait or an upload can't be captured.
    expect_nothing_travels(record_call(kata, accelerator))
    graph = accelerator.graph()
    with graph.capture():
        tables = kata.search_chunk_tables(cu_seqlens, 128)
    for lengths in ([1, 1, 126], [128, 0, 0], [0, 64, 64]):
        cu_seqlens.copy_(starts_of(lengths))
        graph.replay()
        where = ", in a replay of a graph that was captured with others"
        expect_tables(tables, lengths, where=where, likely=CAPTURED)


def test_more_sequences_are_no_more_launches(kata, accelerator):
    few, many = (record_call(kata, accelerator, number) for number in (FEW, MANY))
    # The first kernel is the sleep that everything was queued after.
    for_few, for_many = (
        [event for event in timeline.events if event.on_device][1:] for timeline in (few, many)
    )
    expect(many).that(
        len(for_many) == len(for_few),
        expected=f"{MANY} sequences to take as many kernels and copies as {FEW}",
        did=f"takes {len(for_few)} for {FEW} sequences, and {len(for_many)} for {MANY}",
        events=for_many,
        why=ONE_BY_ONE,
    )


def common_steps(accelerator):
    batches = ([200, 1, 0, 64], [5], [], [64 * 600 + 1, 3], [0, 0], [1] * 40, [65], [1, 0, 200, 64])
    return [
        Step(
            f"search_chunk_tables of {lengths} tokens, in chunks of {size},",
            (starts_of(lengths).to(accelerator.device), sum(lengths), size),
            right_tables(lengths, size),
        )
        for number, lengths in enumerate(batches)
        for size in [(64, 64, 64, 64, 16, 64, 32, 64)[number]]
    ]


COMMON = Common(
    make=lambda kata, accelerator: kata.search_chunk_tables,
    steps=common_steps,
    sized=lambda accelerator, n: Step(
        "", (starts_of([65] * n).to(accelerator.device), 65 * n, 64), None
    ),
    stale="Each step has lengths of its own, and tables of its own.",
)
