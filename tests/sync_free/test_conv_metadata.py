"""The convolution's metadata: planned once a step, and before the change."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import debubble
from solutions.sync_free.before import conv_metadata as before
from solutions.sync_free.model.conv_chunks import (
    CHUNK_TOKENS,
    PAD_SLOT,
    plan_conv_metadata,
    prepare_conv_metadata,
)
from solutions.sync_free.sites import conv_metadata
from tests.common import claims
from tests.common.refusals import expect_refused
from tests.instructions import instructions_of

BOTH = pytest.mark.parametrize("module", [conv_metadata, before], ids=["ours", "before"])
LARGE = 4096
LAYERS = 5

some_lengths = st.lists(
    st.sampled_from([0, 1, 2, CHUNK_TOKENS - 1, CHUNK_TOKENS, CHUNK_TOKENS + 1, 30]), max_size=6
)


def starts_of(lengths):
    return torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def oracle(lengths):
    """Returns (batch_of_chunk, chunk_offset), made chunk by chunk."""
    chunks = [
        (sequence, offset)
        for sequence, length in enumerate(lengths)
        for offset in range(0, length, CHUNK_TOKENS)
    ]
    return [sequence for sequence, _ in chunks], [offset for _, offset in chunks]


def expect_metadata(metadata, lengths):
    batch_of_chunk, chunk_offset = oracle(lengths)
    assert metadata.batch_of_chunk.dtype == metadata.chunk_offset.dtype == torch.int32
    assert metadata.batch_of_chunk.tolist() == batch_of_chunk
    assert metadata.chunk_offset.tolist() == chunk_offset
    assert metadata.num_seqs == len(lengths)
    assert metadata.num_tokens == sum(lengths)


class Layers:
    """A stand-in for a model's layers: each adds one to the tokens, and notes its metadata in
    `told`."""

    def __init__(self, count=LAYERS):
        self.layers = [self.run] * count
        self.told = []

    def run(self, tokens, metadata):
        self.told.append(metadata)
        return tokens + 1


@BOTH
@given(lengths=some_lengths)
def test_each_layer_is_told_which_chunk_is_whose(accelerator, module, lengths):
    starts = starts_of(lengths)
    tokens = torch.zeros(int(starts[-1]), 2, device=accelerator.device)
    layers = Layers()
    after = module.convolve_layers(layers.layers, tokens, starts.to(accelerator.device), starts)
    assert after.tolist() == [[LAYERS, LAYERS]] * sum(lengths)
    assert len(layers.told) == LAYERS
    for metadata in layers.told:
        expect_metadata(metadata, lengths)


def test_4096_requests_of_up_to_two_tokens(accelerator):
    lengths = np.random.default_rng(5).integers(0, 3, LARGE)
    expect_metadata(prepare_conv_metadata(starts_of(lengths), accelerator.device), lengths.tolist())


def test_planning_4096_requests_is_no_more_python_than_planning_one():
    def python_for(requests):
        starts = starts_of(np.random.default_rng(5).integers(1, 40, requests))
        slots = torch.randperm(requests).int()
        return instructions_of(lambda: plan_conv_metadata(starts, slots))

    assert python_for(LARGE) == python_for(1)


def test_starts_may_come_as_an_array(accelerator):
    starts = starts_of([3, 9])
    expect_metadata(prepare_conv_metadata(starts.numpy(), accelerator.device), [3, 9])


def test_one_pinned_upload_for_all_layers(accelerator):
    starts, tokens = starts_of([3, 9]), torch.zeros(12, 2, device=accelerator.device)
    args = Layers(48).layers, tokens, starts.to(accelerator.device), starts
    claims.expect_no_wait(accelerator, lambda: conv_metadata.convolve_layers(*args))


def test_before_waited_three_times_in_each_layer(accelerator):
    starts, tokens = starts_of([3, 9]), torch.zeros(12, 2, device=accelerator.device)
    args = Layers().layers, tokens, starts.to(accelerator.device), starts
    counts = claims.counts_of(accelerator, lambda: before.convolve_layers(*args))
    waits = (counts["host_syncs"], counts["d2h"], counts["h2d_pageable"])
    assert waits == (3 * LAYERS, LAYERS, 2 * LAYERS)


@pytest.mark.gpu
def test_the_host_returns_at_once_also_with_4096_requests(accelerator):
    starts = starts_of(np.random.default_rng(5).integers(0, 3, LARGE))
    slots = torch.randperm(LARGE).int()
    call = lambda: prepare_conv_metadata(starts, accelerator.device, slots)
    claims.expect_host_returns(accelerator, call)


def test_overlapped_steps_each_get_their_own_metadata(accelerator):
    inputs = [[step % 20, 0, 3 * step] for step in range(claims.OVERLAPPED_CALLS)]
    call = lambda lengths: prepare_conv_metadata(starts_of(lengths), accelerator.device)
    results = claims.overlapped(accelerator, call, inputs)
    for metadata, lengths in zip(results, inputs, strict=True):
        expect_metadata(metadata, lengths)


def test_pads_may_share_their_index_and_sequences_without_tokens_a_slot(accelerator):
    starts, slots = starts_of([3, 1, 2, 0]), torch.tensor([PAD_SLOT, PAD_SLOT, 4, 4])
    assert prepare_conv_metadata(starts, accelerator.device, slots).highest_slot == 4


@pytest.mark.parametrize(
    ("starts", "slots", "message"),
    [
        (torch.tensor([1, 4]), None, "query_start_loc_cpu starts at 1"),
        (np.empty(0, np.int32), None, "query_start_loc_cpu is empty"),
        (torch.tensor([0, 4, 3]), None, "goes from 4 down to 3 at sequence 1"),
        (torch.tensor([0.0, 4.0]), None, r"query_start_loc_cpu is float32 \[2\]"),
        (torch.tensor([0, 4, 5]), [3, -2], "sequence 1 has cache index -2"),
        (torch.tensor([0, 4, 5]), [3], "1 cache indices for 2 sequences"),
        (torch.tensor([0, 4, 5, 6]), [3, 1, 3], "cache index 3 belongs to more than one sequence"),
    ],
)
def test_a_batch_that_cannot_be_is_refused(accelerator, starts, slots, message):
    slots = slots and torch.tensor(slots)
    call = lambda: prepare_conv_metadata(starts, accelerator.device, slots)
    expect_refused(accelerator, call, message, unchanged=())


def test_starts_on_the_device_are_refused(accelerator):
    starts = starts_of([3, 9]).to(accelerator.device)
    with debubble.no_host_syncs(), pytest.raises(ValueError, match="give it on the host"):
        prepare_conv_metadata(starts, accelerator.device)
