"""The chunk tables that a kernel makes, compared with the host's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from solutions.gdn import device_tables
from solutions.gdn.chunk_tables import prepare_chunk_offsets
from solutions.gdn.device_tables import prepare_chunk_tables_on_device, search_chunk_tables
from solutions.gdn.host_tables import upload_chunk_tables
from solutions.gdn.rule.chunks import ChunkTables, check_tables, most_chunks
from tests.common import claims
from tests.common.refusals import expect_refused

from .chunks import expect_tables, starts_of

AROUND_A_CHUNK = (0, 1, 15, 16, 17, 63, 64, 65, 129)


def on_device(accelerator, lengths):
    return torch.from_numpy(starts_of(lengths)).to(accelerator.device)


def buffers(accelerator, num_rows, num_seqs):
    """Returns chunk tables for the argument `out`, full of numbers that an earlier step may have
    left."""
    return ChunkTables(
        torch.full((num_rows, 2), 7, dtype=torch.int32, device=accelerator.device),
        torch.full((num_seqs + 1,), 7, dtype=torch.int64, device=accelerator.device),
    )


def expect_made(accelerator, lengths, chunk_size=64):
    starts, num_tokens = on_device(accelerator, lengths), sum(lengths)
    tables = prepare_chunk_tables_on_device(starts, num_tokens, chunk_size)
    num_rows = most_chunks(len(lengths), num_tokens, chunk_size)
    expect_tables(tables, lengths, chunk_size, num_rows)
    return tables


@given(
    lengths=st.lists(st.sampled_from(AROUND_A_CHUNK), max_size=6),
    chunk_size=st.sampled_from([16, 32, 64, 128]),
)
@settings(max_examples=50)
def test_they_are_those_of_the_host(accelerator, lengths, chunk_size):
    made = expect_made(accelerator, lengths, chunk_size)
    sent = upload_chunk_tables(starts_of(lengths), accelerator.device, chunk_size)
    num_chunks = len(sent.chunk_indices)
    assert torch.equal(made.chunk_indices[:num_chunks].cpu(), sent.chunk_indices.cpu())
    assert torch.equal(made.chunk_offsets.cpu(), sent.chunk_offsets.cpu())


@pytest.mark.parametrize("num_seqs", [device_tables.TILE - 1, device_tables.TILE, 3000])
def test_trap_7_more_sequences_than_a_program_looks_at_together(accelerator, num_seqs):
    random = np.random.default_rng(num_seqs)
    expect_made(accelerator, random.choice([0, 1, 64, 65], num_seqs).tolist())


@pytest.mark.gpu
@pytest.mark.parametrize("num_seqs", [4096, 65_536])
def test_trap_7_programs_do_not_race_for_the_offsets(accelerator, num_seqs):
    lengths = np.random.default_rng(num_seqs).choice([0, 1, 64, 65, 300], num_seqs).tolist()
    for _ in range(5):
        expect_made(accelerator, lengths)


@pytest.mark.parametrize("rows_more", [-1, 0, 1])
def test_tables_around_the_rows_of_a_program(accelerator, rows_more):
    expect_made(accelerator, [64 * (device_tables.BLOCK + rows_more)])


def test_a_few_tokens_in_thousands_of_sequences(accelerator):
    lengths = [0] * 2000
    lengths[3] = lengths[1500] = lengths[1999] = 1
    expect_made(accelerator, lengths)


@pytest.mark.parametrize("chunk_size", [1, 3, 8])
def test_unchecked_for_chunks_of_any_size(accelerator, chunk_size):
    lengths = [0, 3, 1, 8, 0, 17]
    tables = search_chunk_tables(on_device(accelerator, lengths), sum(lengths), chunk_size)
    expect_tables(tables, lengths, chunk_size, most_chunks(6, sum(lengths), chunk_size))


def searched_by_pytorch(cu_seqlens, num_tokens):
    """Returns the chunk tables as the hint of the kata `device_tables` makes them, by PyTorch's
    searchsorted and without Triton."""
    offsets = prepare_chunk_offsets(cu_seqlens)
    num_rows = most_chunks(len(cu_seqlens) - 1, num_tokens)
    row = torch.arange(num_rows, device=cu_seqlens.device)
    sequence = torch.searchsorted(offsets[1:], row, right=True)
    rows = torch.stack([sequence, row - offsets[sequence]], dim=1)
    rows.masked_fill_((row >= offsets[-1]).unsqueeze(1), -1)
    return ChunkTables(rows.int(), offsets)


@pytest.mark.parametrize("lengths", [[5], [128, 0, 128], [0, 130, 0, 0, 64, 0], [0, 0]], ids=str)
def test_pytorchs_own_operators_find_the_same_rows_without_a_wait(accelerator, lengths):
    starts, num_tokens = on_device(accelerator, lengths), sum(lengths)
    call = lambda: searched_by_pytorch(starts, num_tokens)
    claims.expect_no_wait(accelerator, call, pinned_uploads=0)
    for found, made in zip(call(), search_chunk_tables(starts, num_tokens), strict=True):
        assert torch.equal(found, made)


def test_starts_may_lie_anywhere_in_a_buffer(accelerator):
    lengths = [3, 0, 70]
    buffer = torch.zeros(8, dtype=torch.int32, device=accelerator.device)
    for first in range(4):
        starts = buffer[first : first + 4]
        starts.copy_(on_device(accelerator, lengths))
        tables = prepare_chunk_tables_on_device(starts, 73)
        expect_tables(tables, lengths, 64, num_rows=4)


def test_one_kernel_no_upload_and_no_wait(accelerator):
    starts = on_device(accelerator, [100, 0, 300])
    call = lambda: prepare_chunk_tables_on_device(starts, 400)
    counts = claims.expect_no_wait(accelerator, call, pinned_uploads=0)
    assert (counts["kernels"], counts["d2h"], counts["h2d_pinned"]) == (1, 0, 0)


@pytest.mark.gpu
def test_the_host_returns_at_once(accelerator):
    starts = on_device(accelerator, [100, 0, 300])
    call = lambda: prepare_chunk_tables_on_device(starts, 400)
    claims.expect_host_returns(accelerator, call)


def test_overlapped_steps_each_get_their_own_tables(accelerator):
    steps = [[step, 0, 3 * step] for step in range(16)]
    uploaded = [(on_device(accelerator, lengths), sum(lengths)) for lengths in steps]
    call = lambda step: prepare_chunk_tables_on_device(*step)
    for tables, lengths in zip(claims.overlapped(accelerator, call, uploaded), steps, strict=True):
        expect_tables(tables, lengths, 64, most_chunks(3, sum(lengths)))


def test_a_replayed_graph_makes_the_tables_of_its_step(accelerator):
    num_tokens, num_rows = 400, 11  # two rows more than these tokens can need
    starts, out = on_device(accelerator, [100, 0, 300]), buffers(accelerator, num_rows, 3)
    assert prepare_chunk_tables_on_device(starts, num_tokens, out=out) is out
    expect_tables(out, [100, 0, 300], 64, num_rows)
    graph = accelerator.graph()
    with graph.capture():
        prepare_chunk_tables_on_device(starts, num_tokens, out=out)
    for lengths in ([400, 0, 0], [1, 1, 398], [0, 64, 336], [134, 133, 133], [0, 0, 5]):
        starts.copy_(on_device(accelerator, lengths))
        graph.replay()
        expect_tables(out, lengths, 64, num_rows)


def test_they_pass_as_the_tables_of_their_batch(accelerator):
    tables = prepare_chunk_tables_on_device(on_device(accelerator, [100, 0, 300]), 400)
    check_tables(*tables, num_seqs=3, num_tokens=400)


BAD_STARTS = {
    "cu_seqlens is on the host": lambda starts: starts.cpu(),
    r"cu_seqlens is torch.int64 \[4\]": lambda starts: starts.long(),
    r"cu_seqlens is torch.int32 \[2, 2\]": lambda starts: starts.view(2, 2),
    r"cu_seqlens is torch.int32 \[0\]": lambda starts: starts[:0],
    r"cu_seqlens is torch.int32 \[2\]: .*contiguous": lambda starts: starts[::2],
}


@pytest.mark.parametrize("message", BAD_STARTS)
def test_starts_that_cannot_be_are_refused(accelerator, message):
    starts = BAD_STARTS[message](on_device(accelerator, [100, 0, 300]))
    call = lambda: prepare_chunk_tables_on_device(starts, 400)
    expect_refused(accelerator, call, message, unchanged=())


@pytest.mark.parametrize(
    ("lengths", "num_tokens", "chunk_size", "message"),
    [
        ([100, 300], 400, 24, "chunks of 24 tokens"),
        ([100, 300], 400, 8, "chunks of 8 tokens"),
        ([], 400, 64, "400 tokens in 0 sequences"),
        ([100, 300], -1, 64, "-1 tokens in 2 sequences"),
    ],
)
def test_a_batch_that_cannot_be_is_refused(accelerator, lengths, num_tokens, chunk_size, message):
    starts = on_device(accelerator, lengths)
    call = lambda: prepare_chunk_tables_on_device(starts, num_tokens, chunk_size)
    expect_refused(accelerator, call, message, unchanged=(starts,))


BAD_OUT = {
    r"out.chunk_indices is torch.int32 \[8, 2\]: .*\[9 or more, 2\]": lambda out: out._replace(
        chunk_indices=out.chunk_indices[:8]
    ),
    r"out.chunk_indices is torch.int64 \[9, 2\]": lambda out: out._replace(
        chunk_indices=out.chunk_indices.long()
    ),
    r"out.chunk_indices is torch.int32 \[18\]": lambda out: out._replace(
        chunk_indices=out.chunk_indices.view(-1)
    ),
    r"out.chunk_indices is torch.int32 \[9, 2\]: .*contiguous": lambda out: out._replace(
        chunk_indices=out.chunk_indices.T.contiguous().T
    ),
    "out.chunk_indices is on cpu": lambda out: out._replace(chunk_indices=out.chunk_indices.cpu()),
    r"out.chunk_offsets is torch.int64 \[3\]: .*\[4\]": lambda out: out._replace(
        chunk_offsets=out.chunk_offsets[:3]
    ),
    r"out.chunk_offsets is torch.int32 \[4\]": lambda out: out._replace(
        chunk_offsets=out.chunk_offsets.int()
    ),
    "out.chunk_offsets is on cpu": lambda out: out._replace(chunk_offsets=out.chunk_offsets.cpu()),
}


@pytest.mark.parametrize("message", BAD_OUT)
def test_buffers_that_do_not_suffice_are_refused(accelerator, message):
    starts, good = on_device(accelerator, [100, 0, 300]), buffers(accelerator, 9, 3)
    out = BAD_OUT[message](good)
    call = lambda: prepare_chunk_tables_on_device(starts, 400, out=out)
    expect_refused(accelerator, call, message, unchanged=(*good, *out))
