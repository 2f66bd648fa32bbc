"""Trap 4: a table and its kernels must have one chunk size. Nothing crashes if they differ."""

import numpy as np
import pytest
import torch

from debubble.accelerator import launch
from solutions.gdn.device_tables import prepare_chunk_tables_on_device
from solutions.gdn.host_tables import plan_chunk_tables, upload_chunk_tables
from solutions.gdn.katas.local_cumsum import local_cumsum_kernel
from solutions.gdn.rule.chunk_gated_delta_rule import chunk_gated_delta_rule
from solutions.gdn.rule.chunks import FLA_CHUNK_SIZE, most_chunks
from tests.common.refusals import expect_refused

from .chunks import starts_of
from .sequences import Sequences


def tables_of_size(sequences, chunk_size):
    return upload_chunk_tables(starts_of(sequences.lengths), sequences.q.device, chunk_size)


def test_trap_4_a_table_of_larger_chunks_leaves_tokens_out(accelerator):
    """A kernel for chunks of 64 that gets a table of chunks of 128 leaves out half of the tokens:
    it takes each row of the table for a chunk of 64."""
    sequences = Sequences.random(accelerator, [256])
    sums = torch.zeros_like(sequences.g)
    rows = tables_of_size(sequences, 128).chunk_indices
    arguments = (sums, sequences.g, sequences.cu_seqlens, rows, 2)
    launch(local_cumsum_kernel, (len(rows),), *arguments, CHUNK=64, HEADS=2)
    right = sequences.g.cpu().unflatten(1, (4, 64)).cumsum(2).flatten(1, 2)
    torch.testing.assert_close(sums[:, :128].cpu(), right[:, :128])
    assert not sums[:, 128:].any()


@pytest.mark.parametrize("chunk_size", [16, 32, 128])
def test_trap_4_a_table_of_another_size_is_refused_where_its_length_shows(accelerator, chunk_size):
    sequences = Sequences.random(accelerator, [256])
    tables = tables_of_size(sequences, chunk_size)
    found = 256 // chunk_size
    message = rf"\[{found}, 2\]: 1 sequences with 256 tokens have 4 to 4 chunks of 64"
    given = {"cu_seqlens": sequences.cu_seqlens, "chunk_indices": tables.chunk_indices}
    rule = lambda: chunk_gated_delta_rule(
        **sequences.args, **given, chunk_offsets=tables.chunk_offsets
    )
    expect_refused(accelerator, rule, message, unchanged=())


def test_what_the_lengths_leave_open_no_length_of_a_table_shows():
    """A table for chunks of 128 can have a length that is possible for chunks of 64 too. So no
    check of the length finds the mistake, and there is one constant and one table for all
    kernels."""
    starts = starts_of([1, 1, 126])
    of_others = plan_chunk_tables(starts, 128).arrays["chunk_indices"]
    own = plan_chunk_tables(starts).arrays["chunk_indices"]
    assert (len(of_others), len(own)) == (3, 4)
    assert -(-128 // FLA_CHUNK_SIZE) <= len(of_others) <= most_chunks(3, 128)


def test_what_is_wrong_stays_in_its_place(accelerator):
    """A call whose tables pass the checks but have too few chunks writes nothing outside its own
    memory. (Sim checks this; on a GPU the write would hit a different tensor.)"""
    sequences = Sequences.random(accelerator, [1, 1, 126])
    tables = tables_of_size(sequences, 128)
    chunk_gated_delta_rule(**sequences.args, cu_seqlens=sequences.cu_seqlens, **tables._asdict())
    accelerator.synchronize()


@pytest.mark.parametrize("chunk_size", [0, -64, 1, 8, 24, 63, 65, 96])
def test_a_size_that_no_kernel_can_have_is_refused(accelerator, chunk_size):
    starts = np.array([0, 256])
    on_device = torch.from_numpy(starts.astype(np.int32)).to(accelerator.device)
    for call in (
        lambda: plan_chunk_tables(starts, chunk_size),
        lambda: prepare_chunk_tables_on_device(on_device, 256, chunk_size),
    ):
        message = f"chunks of {chunk_size} tokens: use a power of two, 16 or more"
        expect_refused(accelerator, call, message, unchanged=())
