"""Tests of the kata `row_scales`."""

import torch

import debubble
from debubble.exercises import Common, Step, expect, expect_equal, left_as_they_were

WHY = (
    "A row has too little work for a kernel of its own: the device waits for each launch. All rows "
    "are one tensor, so one kernel can divide each by its own number."
)
ZERO = "A temperature of 0 means that the request takes its best token: its row stays as it is."


def scores_on(accelerator, rows, width=8, dtype=torch.float32):
    return torch.arange(1, rows * width + 1).reshape(rows, width).to(dtype).to(accelerator.device)


def expected_of(scores, temperatures):
    rows = [row / (t or 1.0) for row, t in zip(scores.cpu(), temperatures, strict=True)]
    return torch.stack(rows) if rows else scores.cpu()


def test_each_row_is_divided_by_its_temperature(kata, accelerator):
    scores, temperatures = scores_on(accelerator, 4), [0.5, 1.0, 0.0, 4.0]
    expected = expected_of(scores, temperatures)
    scaled = kata.scale_rows(scores, temperatures)
    expect_equal(scaled, expected, call=f"scale_rows(…, {temperatures})", likely=ZERO)


def test_the_number_of_kernels_does_not_grow(kata, accelerator):
    scores = scores_on(accelerator, 64)
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        kata.scale_rows(scores, [0.5] * 64)
    expect(timeline).at_most(kernels=5, host_syncs=0, h2d_pageable=0, why=WHY)
    expect(timeline).no_hazards()


def test_the_scores_stay_as_they_were(kata, accelerator):
    scores, temperatures = scores_on(accelerator, 4), [0.5, 2.0, 0.0, 4.0]
    with left_as_they_were(scores=scores, temperatures=temperatures):
        kata.scale_rows(scores, temperatures)


def common_steps(accelerator):
    steps = []
    of_rows = ([0.5, 1.0, 0.0, 4.0], [2.0], [], [0.25] * 40, [4.0, 0.0, 0.5, 2.0])
    for temperatures in of_rows:
        arguments = (scores_on(accelerator, len(temperatures)), temperatures)
        shown = temperatures if len(temperatures) < 8 else "40 temperatures"
        steps.append(Step(f"scale_rows(scores, {shown})", arguments, expected_of(*arguments)))
    halves = scores_on(accelerator, 3, dtype=torch.float16)
    arguments = (halves, [0.5, 2.0, 0.0])
    return [*steps, Step("scale_rows(3 rows of float16)", arguments, expected_of(*arguments))]


COMMON = Common(
    make=lambda kata, accelerator: kata.scale_rows,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (scores_on(accelerator, n), [0.5] * n), None),
)
