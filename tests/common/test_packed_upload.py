"""upload_packed and upload_plans: many arrays in one copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import debubble
from solutions.common.packed_upload import Plan, upload_packed, upload_plans
from solutions.common.staging_ring import StagingRing
from solutions.gdn.host_tables import plan_chunk_tables
from solutions.gdn.rule.chunks import ChunkTables
from solutions.sync_free.sites.bad_words import plan_bad_words

DTYPES = (np.int32, np.int64, np.float32, np.bool_, np.uint8)

some_arrays = st.dictionaries(
    st.text("abc", min_size=1, max_size=2),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(max_dims=2, min_side=0))
    ),
    max_size=5,
)


def bytes_ring(capacity, depth=2):
    return StagingRing((capacity,), torch.uint8, depth)


@given(some_arrays)
def test_everything_arrives_as_it_was(accelerator, arrays):
    on_device = upload_packed(arrays, accelerator.device)
    assert on_device.keys() == arrays.keys()
    for name, array in arrays.items():
        assert on_device[name].device.type == accelerator.device.type
        np.testing.assert_array_equal(on_device[name].cpu().numpy(), array)
        assert on_device[name].cpu().numpy().dtype == array.dtype


@pytest.mark.parametrize("ring_bytes", [None, 4096])
def test_all_plans_share_one_pinned_upload(accelerator, ring_bytes):
    ring = ring_bytes and bytes_ring(ring_bytes)
    plans = {
        "lengths": {"cpu": np.arange(3, dtype=np.int32), "mask": np.array([True, False])},
        "ids": {"flat": np.arange(5)},
    }
    upload_plans(plans, accelerator.device, ring)
    accelerator.synchronize()
    with debubble.record(accelerator) as timeline, debubble.no_host_syncs():
        accelerator.sleep(1.0)
        on_device = upload_plans(plans, accelerator.device, ring)
    counts = timeline.counts()
    assert (counts["h2d_pinned"], counts["h2d_pageable"], counts["host_syncs"]) == (1, 0, 0)
    assert on_device["ids"]["flat"].tolist() == [0, 1, 2, 3, 4]
    assert on_device["lengths"]["mask"].tolist() == [True, False]


def test_plans_of_two_systems_share_one_upload(accelerator):
    logits = torch.zeros(2, 8, device=accelerator.device)
    words = {1: [[token_id] for token_id in range(5)]}
    forbids: Plan[[torch.Tensor], None] = plan_bad_words(words, [[], []], *logits.shape)
    cuts: Plan[[], ChunkTables] = plan_chunk_tables(np.array([0, 70, 80]))
    plans = {"forbids": forbids.arrays, "cuts": cuts.arrays}
    with debubble.record(accelerator) as timeline:
        on_device = upload_plans(plans, accelerator.device)
        forbids.apply(on_device["forbids"], logits)
        tables = cuts.apply(on_device["cuts"])
    assert timeline.counts()["h2d_pinned"] == accelerator.pin_memory
    assert torch.isinf(logits).sum(1).tolist() == [0, 5]
    assert tables.chunk_indices.tolist() == [[0, 0], [0, 1], [1, 0]]


def test_nothing_is_uploaded_when_there_is_nothing(accelerator):
    with debubble.record(accelerator) as timeline:
        on_device = upload_packed({"none": np.empty((0, 2), np.int32)}, accelerator.device)
    assert on_device["none"].shape == (0, 2)
    assert timeline.counts()["h2d_pinned"] == timeline.counts()["h2d_pageable"] == 0


def test_overlapped_uploads_through_a_ring_all_arrive(accelerator):
    ring = bytes_ring(64, depth=3)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(2.0)
        sent = [
            upload_plans({"n": {"x": np.full(4, n)}}, accelerator.device, ring) for n in range(8)
        ]
    assert [plans["n"]["x"].tolist() for plans in sent] == [[n] * 4 for n in range(8)]
    assert not timeline.hazards


def test_plans_may_fill_a_slot_of_the_ring(accelerator):
    sent = upload_plans({"n": {"x": np.arange(8)}}, accelerator.device, bytes_ring(64))
    assert sent["n"]["x"].tolist() == [*range(8)]


def test_plans_that_outgrow_the_ring_are_refused_with_their_size(accelerator):
    with pytest.raises(ValueError, match="80 bytes to upload: a slot of this ring holds 64"):
        upload_plans({"n": {"x": np.zeros(10)}}, accelerator.device, bytes_ring(64))
