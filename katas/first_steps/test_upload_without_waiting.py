"""Tests of the kata `upload_without_waiting`."""

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
)

TOKEN_IDS = [11, 7, 5, 3, 2, 13, 17, 19]
LONG = 2000
"""The number of ids at which 100 uploads in a row overflow a pinned buffer of 1 MiB."""
WHY = (
    "A copy engine reads pinned host memory by itself, so the host can go on at once. A host that "
    "waits for a copy waits until everything queued before it is done, and the device is out of "
    "work by then: a bubble. An upload needs both: pinned memory, and a copy from there with "
    "`non_blocking=True`."
)
OVERWRITTEN = (
    "Was its host memory overwritten while the copy was still waiting in the queue? A pinned "
    "buffer that is used again needs an event to say when its last copy is done. Was it copied on "
    "another stream? Then the stream that reads it has to wait for an event that was recorded "
    "there."
)


def test_the_ids_arrive(kata, accelerator):
    with left_as_they_were(token_ids=TOKEN_IDS):
        ids = kata.upload_tokens(TOKEN_IDS)
    expect_equal(ids, torch.tensor(TOKEN_IDS), call=f"upload_tokens({TOKEN_IDS})")


def test_the_ids_are_on_the_device(kata, accelerator):
    place = kata.upload_tokens(TOKEN_IDS).device.type
    expect_equal(place, accelerator.device.type, value="the `device.type` of the tensor")


def test_no_ids_are_of_the_same_type(kata, accelerator):
    """PyTorch infers the dtype from the numbers, and from an empty list it infers float32."""
    none = torch.tensor([], dtype=torch.int64)
    expect_equal(kata.upload_tokens([]), none, call="upload_tokens([])")


def test_uploads_in_a_row_all_arrive(kata, accelerator):
    read, timeline = in_a_row(
        accelerator, lambda row: kata.upload_tokens(list(range(row, row + LONG)))
    )
    expect(timeline).no_hazards(why=OVERWRITTEN)
    for row, ids in enumerate(read):
        value = f"what arrived of {row}, {row + 1}, ..., upload {row + 1} of {len(read)} in a row,"
        expect_equal(ids, torch.arange(row, row + LONG), value=value, likely=OVERWRITTEN)


def test_the_host_does_not_wait(kata, accelerator):
    if not accelerator.pin_memory:
        pytest.skip("host memory cannot be pinned on this machine, so every upload waits")
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(0.1)
        kata.upload_tokens(TOKEN_IDS)
    expect(timeline).counts(host_syncs=0, h2d_pageable=0, h2d_pinned=1, why=WHY)


def common_steps(accelerator):
    lists = (TOKEN_IDS, [2**40, -1, 0], [], [5], list(range(LONG)), [7, 8, 9])
    shown = ("8 ids", "[2**40, -1, 0]", "[]", "[5]", f"{LONG} ids", "[7, 8, 9]")
    return [
        Step(f"upload_tokens({name})", (list(ids),), torch.tensor(ids, dtype=torch.int64))
        for name, ids in zip(shown, lists, strict=True)
    ]


COMMON = Common(
    make=lambda kata, accelerator: kata.upload_tokens,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (list(range(n)),), None),
)
