"""The chunk tables of the host, compared with two loops, and the traps of making them."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions import gdn
from solutions.gdn.host_tables import plan_chunk_tables, upload_chunk_tables
from solutions.gdn.measure import forward_comparison
from solutions.gdn.rule.chunks import ChunkTables, check_tables, most_chunks
from tests.common import claims
from tests.common.refusals import expect_refused
from tests.instructions import instructions_of

from .chunks import expect_tables, starts_of, tables_of

LARGE = 4096
AROUND_A_CHUNK = (0, 1, 2, 15, 16, 17, 63, 64, 65, 128, 129, 200)


def host_tables(lengths, chunk_size=64):
    """Returns the tables made by upstream's two functions, after a check that plan_chunk_tables
    makes the same."""
    starts = starts_of(lengths)
    apart = ChunkTables(
        gdn.prepare_chunk_indices(starts, chunk_size),
        gdn.prepare_chunk_offsets(starts, chunk_size),
    )
    assert apart.chunk_indices.dtype == torch.int32
    assert apart.chunk_offsets.dtype == torch.int64
    together = plan_chunk_tables(starts, chunk_size, int(starts[-1])).arrays
    for name, tensor in apart._asdict().items():
        np.testing.assert_array_equal(together[name], tensor)
    return apart


def test_10000_batches_are_as_two_loops_make_them():
    random = np.random.default_rng(38361)
    for _ in range(10_000):
        chunk_size = 16 << random.integers(0, 4)
        longest = random.choice([2, chunk_size + 1, 3 * chunk_size])
        lengths = random.integers(0, longest + 1, random.integers(0, 9)).tolist()
        found = plan_chunk_tables(starts_of(lengths), chunk_size).arrays
        rows, offsets = tables_of(lengths, chunk_size)
        assert found["chunk_indices"].tolist() == rows
        assert found["chunk_offsets"].tolist() == offsets


@given(st.lists(st.sampled_from(AROUND_A_CHUNK), max_size=8), st.sampled_from([16, 32, 64, 128]))
def test_each_chunk_has_one_row(lengths, chunk_size):
    expect_tables(host_tables(lengths, chunk_size), lengths, chunk_size)


def test_starts_may_come_as_a_tensor_of_either_integer_type(accelerator):
    for dtype in (torch.int32, torch.int64):
        starts = torch.tensor([0, 3, 70], dtype=dtype)
        expect_tables(upload_chunk_tables(starts, accelerator.device), [3, 67], 64)


def test_one_pinned_upload_for_both_tables(accelerator):
    starts = starts_of([100, 0, 300])
    claims.expect_no_wait(accelerator, lambda: upload_chunk_tables(starts, accelerator.device))


def test_the_host_alone_plans(accelerator):
    with debubble.record(accelerator) as timeline:
        host_tables([100, 0, 300])
    assert timeline.events == []


@pytest.mark.gpu
def test_the_host_returns_at_once_also_with_4096_sequences(accelerator):
    starts = starts_of(np.random.default_rng(5).integers(0, 130, LARGE))
    call = lambda: upload_chunk_tables(starts, accelerator.device)
    claims.expect_host_returns(accelerator, call)


def test_trap_1_zero_length_sequences_keep_their_place(accelerator):
    def textbook_sequence_ids(lengths):
        """Returns the sequence of each chunk, by counting the chunks with number 0. (The naive way:
        sequences without tokens have none.)"""
        chunks = np.concatenate([np.arange(-(-length // 64)) for length in lengths])
        return (np.cumsum(chunks == 0) - 1).tolist()

    lengths = [128, 0, 128]
    assert textbook_sequence_ids(lengths) == [0, 0, 1, 1]
    tables = upload_chunk_tables(starts_of(lengths), accelerator.device)
    assert tables.chunk_indices.tolist() == [[0, 0], [0, 1], [2, 0], [2, 1]]
    assert tables.chunk_offsets.tolist() == [0, 2, 2, 4]


def test_trap_3_the_upload_is_pinned_and_its_source_is_free_at_once(accelerator):
    device, starts = accelerator.device, starts_of([64] * LARGE)

    def naive_upload():
        """Uploads the table with non_blocking=True, but from pageable memory, so the host waits.
        (The naive way.)"""
        table = gdn.prepare_chunk_indices(starts)
        return table.to(device, non_blocking=True)

    counts = claims.counts_of(accelerator, naive_upload)
    assert (counts["h2d_pageable"], counts["h2d_pinned"]) == (1, 0)
    with pytest.raises(debubble.HostSyncError, match="pageable"), debubble.no_host_syncs():
        naive_upload()
    claims.expect_no_wait(accelerator, lambda: upload_chunk_tables(starts, device))

    source = np.empty(4, np.int32)

    def our_upload(lengths):
        """Uploads the tables of these lengths, and overwrites the buffer of starts as soon as the
        upload is queued."""
        source[:] = starts_of(lengths)
        tables = upload_chunk_tables(source, device)
        source[:] = -1
        return tables

    steps = [[step, 0, 3 * step] for step in range(claims.OVERLAPPED_CALLS)]
    for tables, lengths in zip(
        claims.overlapped(accelerator, our_upload, steps), steps, strict=True
    ):
        expect_tables(tables, lengths, 64)


@pytest.mark.parametrize(
    "lengths",
    [[], [0], [0, 0], [1], [63], [64], [65], [1, 63, 64, 65], [1] * 7 + [8185]],
    ids=str,
)
def test_trap_7_the_smallest_and_the_odd_batches(accelerator, lengths):
    expect_tables(host_tables(lengths), lengths, 64)
    expect_tables(upload_chunk_tables(starts_of(lengths), accelerator.device), lengths, 64)


def test_trap_7_thousands_of_sequences_are_no_more_python_than_eight():
    def naive_plan(starts):
        """Returns the chunk numbers of all sequences, by a Python loop over them. (The naive
        way.)"""
        chunks = [np.arange(-(-length // 64)) for length in np.diff(starts).tolist()]
        return np.concatenate(chunks)

    def python_of(plan, num_seqs):
        """Returns the number of Python instructions that `plan` executes for `num_seqs`
        sequences."""
        starts = starts_of(np.random.default_rng(3).integers(0, 130, num_seqs))
        return instructions_of(lambda: plan(starts))

    assert python_of(naive_plan, LARGE) > LARGE
    assert python_of(plan_chunk_tables, LARGE) == python_of(plan_chunk_tables, 8)
    lengths = np.random.default_rng(3).integers(0, 130, LARGE).tolist()
    expect_tables(host_tables(lengths), lengths, 64)


def test_planning_is_timed_with_zero_lengths_among_them(monkeypatch):
    planned = []
    monkeypatch.setattr(forward_comparison, "plan_chunk_tables", planned.append)
    assert forward_comparison.planning_us(LARGE, longest=128, runs=3) > 0
    assert len(planned) == 3
    lengths = np.diff(planned[0])
    assert (len(lengths), lengths.min(), lengths.max()) == (LARGE, 0, 128)


@pytest.mark.parametrize("chunk_size", [1, 2, 4])
def test_most_chunks_is_reached_and_never_exceeded(chunk_size):
    for num_seqs, longest in ((1, 9), (2, 9), (3, 7), (4, 6)):
        reached = {}
        for lengths in product(range(longest + 1), repeat=num_seqs):
            chunks = sum(-(-length // chunk_size) for length in lengths)
            reached[sum(lengths)] = max(reached.get(sum(lengths), 0), chunks)
        for num_tokens in range(longest + 1):
            most = most_chunks(num_seqs, num_tokens, chunk_size)
            assert most == reached[num_tokens], (num_seqs, num_tokens)


def test_no_sequences_have_no_chunks():
    assert most_chunks(0, 0) == 0


@pytest.mark.parametrize(("num_seqs", "num_tokens"), [(0, 3), (2, -1)])
def test_tokens_that_cannot_be_are_refused(num_seqs, num_tokens):
    with pytest.raises(ValueError, match=f"{num_tokens} tokens in {num_seqs} sequences"):
        most_chunks(num_seqs, num_tokens)


BAD_STARTS = {
    "cu_seqlens starts at 1": np.array([1, 4]),
    "cu_seqlens is empty": np.empty(0, np.int32),
    "cu_seqlens goes from 4 down to 3 at sequence 1": torch.tensor([0, 4, 3, 9]),
    r"cu_seqlens is float32 \[2\]": torch.tensor([0.0, 4.0]),
    r"cu_seqlens is bool \[2\]": np.array([False, True]),
    r"cu_seqlens is int64 \[1, 2\]": np.array([[0, 4]]),
}


@pytest.mark.parametrize("message", BAD_STARTS)
def test_starts_that_cannot_be_are_refused(accelerator, message):
    call = lambda: upload_chunk_tables(BAD_STARTS[message], accelerator.device)
    expect_refused(accelerator, call, message, unchanged=())
    for prepare in (gdn.prepare_chunk_indices, gdn.prepare_chunk_offsets):
        with pytest.raises(ValueError, match=message):
            prepare(BAD_STARTS[message])


def test_starts_that_do_not_end_with_the_tokens_are_refused():
    with pytest.raises(ValueError, match="ends at 7, and there are 9 tokens"):
        plan_chunk_tables(starts_of([3, 4]), num_tokens=9)


def test_starts_on_the_device_are_refused(accelerator):
    starts = torch.from_numpy(starts_of([3, 9])).to(accelerator.device)
    call = lambda: upload_chunk_tables(starts, accelerator.device)
    expect_refused(accelerator, call, "give it on the host", unchanged=(starts,))


@pytest.mark.parametrize("chunk_size", [-64, 0, 1, 8, 24, 65])
def test_a_chunk_size_that_no_kernel_has_is_refused(accelerator, chunk_size):
    call = lambda: upload_chunk_tables(starts_of([3]), accelerator.device, chunk_size)
    expect_refused(accelerator, call, f"chunks of {chunk_size} tokens", unchanged=())


LENGTHS = [100, 0, 300]
"""The sequence lengths for the checks below. They have 7 chunks; any table of 400 tokens in 3
sequences has 7 to 9."""


def checked(accelerator, num_seqs=3, num_tokens=400, chunk_size=64, **other):
    tables = upload_chunk_tables(starts_of(LENGTHS), accelerator.device)._asdict()
    return lambda: check_tables(
        **tables | other,
        **{"num_seqs": num_seqs, "num_tokens": num_tokens, "chunk_size": chunk_size},
    )


def test_tables_of_this_batch_pass_and_nobody_waits(accelerator):
    call = checked(accelerator)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        call()
    assert timeline.events == []


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"num_tokens": 500}, "3 sequences with 500 tokens have 8 to 10 chunks of 64"),
        ({"num_tokens": 6}, "3 sequences with 6 tokens have 1 to 3 chunks of 64"),
        ({"chunk_size": 32}, "have 13 to 15 chunks of 32"),
        ({"chunk_size": 128}, "have 4 to 6 chunks of 128"),
        ({"num_seqs": 4}, r"chunk_offsets is torch.int64 \[4\]: for 4 sequences"),
    ],
)
def test_tables_of_another_batch_or_chunk_size_are_refused(accelerator, batch, message):
    expect_refused(accelerator, checked(accelerator, **batch), message, unchanged=())


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("chunk_indices", lambda t: t.long(), r"chunk_indices is torch.int64 \[7, 2\]"),
        ("chunk_indices", lambda t: t[:, 0], r"chunk_indices is torch.int32 \[7\]"),
        ("chunk_indices", lambda t: t.repeat(1, 2), r"chunk_indices is torch.int32 \[7, 4\]"),
        ("chunk_indices", lambda t: t.T.contiguous().T, r"with strides \[1, 7\]"),
        ("chunk_offsets", lambda t: t.int(), r"chunk_offsets is torch.int32 \[4\]"),
        ("chunk_offsets", lambda t: t[:, None], r"chunk_offsets is torch.int64 \[4, 1\]"),
        ("chunk_offsets", lambda t: t.repeat(2)[::2], r"with strides \[2\]"),
    ],
)
def test_tables_of_another_type_or_layout_are_refused(accelerator, name, change, message):
    tables = upload_chunk_tables(starts_of(LENGTHS), accelerator.device)
    call = checked(accelerator, **{name: change(getattr(tables, name))})
    expect_refused(accelerator, call, message, unchanged=())
