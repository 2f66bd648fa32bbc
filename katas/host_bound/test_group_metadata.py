"""Tests of the kata `group_metadata`."""

import numpy as np
import torch

import debubble
from debubble.exercises import Common, Step, expect, expect_equal

BLOCK = 16
ONCE = (
    "Starts and positions are the same for each group. An upload for each group is a call of the "
    "host for each group, in every step."
)
ARRAYS = (
    "Positions and slots follow from the arrays by NumPy: `np.repeat` gives the request of each "
    "token. A loop over tokens is Python while the device has no work."
)


def batch(lengths, groups, cached=40):
    """Returns lengths, cached tokens and tables, in which the blocks of each group differ."""
    count = len(lengths)
    blocks = -(-(cached + max(lengths, default=0)) // BLOCK)
    tables = np.arange(1, groups * count * blocks + 1, dtype=np.int32)
    tables = tables.reshape(groups, count, blocks)[:, :, ::-1].copy()
    return np.array(lengths, np.int32), np.full(count, cached, np.int32), tables


def expected_of(lengths, cached, tables):
    starts = np.concatenate([[0], np.cumsum(lengths)])
    positions = [int(c) + i for n, c in zip(lengths, cached, strict=True) for i in range(n)]
    owners = [request for request, n in enumerate(lengths) for _ in range(n)]
    slots = [
        [
            int(table[r, p // BLOCK]) * BLOCK + p % BLOCK
            for r, p in zip(owners, positions, strict=True)
        ]
        for table in tables
    ]
    return tuple(
        torch.tensor(values, dtype=torch.int32).reshape(shape)
        for values, shape in (
            (starts.tolist(), (-1,)),
            (positions, (-1,)),
            (slots, (len(tables), len(positions))),
        )
    )


def test_each_group_has_its_slots_and_all_share_the_rest(kata, accelerator):
    arguments = batch([5, 1, 1, 20], 3)
    made = kata.group_metadata(*arguments)
    for name, mine, theirs in zip(
        ("starts", "positions", "slots"), made, expected_of(*arguments), strict=True
    ):
        expect_equal(mine, theirs, value=f"`{name}` of a step of 4 requests in 3 groups")


def test_all_groups_share_one_upload(kata, accelerator):
    arguments = batch([1] * 8, 4)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        kata.group_metadata(*arguments)
    expect(timeline).counts(h2d_pinned=1, h2d_pageable=0, host_syncs=0, why=ONCE)
    expect(timeline).no_hazards()


def test_the_device_computes_nothing(kata, accelerator):
    arguments = batch([1] * 8, 4)
    with debubble.record(accelerator) as timeline:
        kata.group_metadata(*arguments)
    expect(timeline).counts(kernels=0, d2d=0, why=ONCE)


SIZES = ([7, 1, 16], 2), ([16, 1, 7], 2), ([1], 1), ([], 2), ([1] * 40, 3), ([0, 2], 1)
"""Lengths and numbers of groups. Two steps of one size have other numbers."""


def common_steps(accelerator):
    return [
        Step(f"group_metadata of {lengths} in {groups} groups", arguments, expected_of(*arguments))
        for lengths, groups in SIZES
        for arguments in (batch(lengths, groups),)
    ]


COMMON = Common(
    make=lambda kata, accelerator: lambda *arguments: tuple(kata.group_metadata(*arguments)),
    steps=common_steps,
    sized=lambda accelerator, n: Step("", batch([1] * n, 2), None),
    stale=ARRAYS,
)
