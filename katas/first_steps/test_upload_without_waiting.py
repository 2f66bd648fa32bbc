"""Tests of the kata `upload_without_waiting`."""

import pytest
import torch

import debubble
from debubble.workshop import expect, expect_equal

TOKEN_IDS = [11, 7, 5, 3, 2, 13, 17, 19]
UPLOADS = 40
"""More than anybody makes buffers for that are taken in turn without asking."""
WHY = (
    "A copy engine reads pinned host memory by itself. From pageable memory the host has to hand "
    "the bytes on, and it waits until everything that was queued before the copy is done. The "
    "device is out of work by then: a bubble. Pinned memory without `non_blocking=True` waits as "
    "well, and so does `non_blocking=True` from memory that is not pinned."
)
OVERWRITTEN = (
    "Was its host memory overwritten while the copy was still waiting in the queue? A pinned "
    "buffer that is used again needs an event to say when its last copy is done. Was it copied on "
    "another stream? Then whoever reads it has to wait for an event that was recorded there."
)


def test_the_ids_arrive(kata, accelerator):
    ids = kata.upload_tokens(TOKEN_IDS)
    expect_equal(ids, torch.tensor(TOKEN_IDS), call=f"upload_tokens({TOKEN_IDS})")


def test_the_ids_are_on_the_device(kata, accelerator):
    place = kata.upload_tokens(TOKEN_IDS).device.type
    expect_equal(place, accelerator.device.type, value="the `device.type` of the tensor")


def test_no_ids_are_of_the_same_type(kata, accelerator):
    """Without a dtype PyTorch goes by the numbers, and of none it makes float32."""
    none = torch.tensor([], dtype=torch.int64)
    expect_equal(kata.upload_tokens([]), none, call="upload_tokens([])")


def test_uploads_in_a_row_all_arrive(kata, accelerator):
    lists = [[10 * row + column for column in range(6)] for row in range(UPLOADS)]
    with debubble.record(accelerator) as timeline:
        # No copy starts before this is over: a real host has to be done by then.
        accelerator.sleep(1.0 if accelerator.modelled else 20.0)
        arrived = [kata.upload_tokens(token_ids) for token_ids in lists]
        # As a model would: on the stream on which the ids were asked for.
        read = [ids + 0 for ids in arrived]
    expect(timeline).no_hazards(why=OVERWRITTEN)
    for row, token_ids in enumerate(lists):
        value = f"what arrived of {token_ids}, upload {row + 1} of {UPLOADS} in a row,"
        expect_equal(read[row], torch.tensor(token_ids), value=value, likely=OVERWRITTEN)


def test_the_host_does_not_wait(kata, accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory cannot be pinned on this machine, so every upload waits")
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.1)
        kata.upload_tokens(TOKEN_IDS)
    expect(timeline).counts(host_syncs=0, h2d_pageable=0, h2d_pinned=1, why=WHY)
