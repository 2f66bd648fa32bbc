"""The range tensor, compared with the code before the change."""

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import debubble
from debubble.accelerator import current
from solutions.pinned_h2d import (
    ModelRunner,
    PagedRequests,
    PrefixRangeBuffer,
    TritonAttentionMetadata,
    before,
)
from solutions.pinned_h2d import compute_mm_prefix_range_tensor as compute

from . import strategies


@given(ranges=strategies.ranges, num_seqs=st.integers(0, 8))
@settings(max_examples=150)
def test_the_tensor_is_the_one_that_it_was(ranges, num_seqs):
    device = current().device
    then = before.compute_mm_prefix_range_tensor(ranges, num_seqs, device)
    now = TritonAttentionMetadata.compute_mm_prefix_range_tensor(ranges, num_seqs, device)
    assert (now is None) == (then is None)
    if now is not None:
        assert now.dtype == then.dtype == torch.int32
        assert now.device == then.device
        assert now.tolist() == then.tolist()


@given(ranges=strategies.ranges, num_seqs=st.integers(0, 8))
@settings(max_examples=100)
def test_the_persistent_buffer_holds_the_same_and_zeros(ranges, num_seqs):
    then = before.compute_mm_prefix_range_tensor(ranges, num_seqs, current().device)
    now = shared_buffer().update(ranges, num_seqs)
    assert (now is None) == (then is None)
    if now is not None:
        used = then.shape[1]
        assert now.shape == (num_seqs, 4, 2)
        assert now[:, :used].tolist() == then.tolist()
        assert not now[:, used:].any()
        assert not shared_buffer().tensor[num_seqs:].any()


def test_it_is_one_upload_that_nobody_waits_for(accelerator):
    with debubble.record(accelerator) as timeline:
        compute({i: [(i, i + 4)] for i in range(16)}, 16, accelerator.device)
    counts = timeline.counts()
    assert (counts["h2d_pinned"], counts["h2d_pageable"], counts["host_syncs"]) == (1, 0, 0)


def test_nothing_to_say_uploads_nothing(accelerator):
    with debubble.record(accelerator) as timeline:
        for ranges in (None, {}, {0: []}, {1: [(0, 0)]}, {99: [(2, 5)]}):
            assert compute(ranges, 4, accelerator.device) is None
    assert timeline.events == []


@cache
def shared_buffer() -> PrefixRangeBuffer:
    """Returns the same buffer for all examples of a test, so that each example finds what the last
    one left."""
    return PrefixRangeBuffer(8, 4, current().device)


@pytest.mark.parametrize("attn_metadata", [{}, [], [{}]], ids=["no layer", "no batch", "neither"])
def test_without_a_layer_there_is_nothing_to_set(accelerator, attn_metadata):
    runner = ModelRunner(4, 2, accelerator.device)
    for each in (runner, before.ModelRunner()):
        each._set_mm_prefix_range_for_metadata(attn_metadata, {0: [(1, 2)]})


def test_a_micro_batch_without_layers_is_left_out(accelerator):
    batch = PagedRequests(2, 32, 16).batch([range(0, 8), range(0, 8)], accelerator.device)
    layers = {"layer": TritonAttentionMetadata(batch)}
    runner = ModelRunner(4, 2, accelerator.device)
    runner._set_mm_prefix_range_for_metadata([{}, layers], {1: [(1, 2)]})
    assert layers["layer"].mm_prefix_range_tensor.tolist() == [[[0, 0]] * 2, [[1, 2], [0, 0]]]
