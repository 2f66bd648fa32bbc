"""Tests of the kata `whole_graph`."""

import math

import torch

import debubble
from debubble.exercises import Common, Diagnosis, KataFailure, Step, expect, expect_equal

BRANCH = (
    "`if` needs a Python bool, so the host waits for the largest score, and `torch.compile` stops "
    "there: a graph break. Compute the factor on the device, and let it be 1 where nothing changes."
)


def scores_on(accelerator, *rows):
    return torch.tensor(rows).to(accelerator.device)


def test_large_scores_are_scaled_down(kata, accelerator):
    limited = kata.limit_scores(scores_on(accelerator, [1.0, -8.0], [4.0, 2.0]), 2.0)
    expect_equal(limited, torch.tensor([[0.5, -4.0], [2.0, 1.0]]), call="limit_scores(…, 2.0)")


def test_small_scores_stay(kata, accelerator):
    masked = [[-math.inf, -math.inf]]
    for rows in ([[1.0, 0.5]], [[-3.0, -1.0]], [[0.0, -1.0]], masked):
        limited = kata.limit_scores(scores_on(accelerator, *rows), 2.0)
        expect_equal(limited, torch.tensor(rows), call=f"limit_scores({rows}, 2.0)")


def test_the_host_does_not_look_at_a_score(kata, accelerator):
    scores = scores_on(accelerator, [1.0, -8.0], [4.0, 2.0])
    with debubble.record(accelerator) as timeline:
        accelerator.sleep(1.0)
        kata.limit_scores(scores, 2.0)
    expect(timeline).counts(host_syncs=0, d2h=0, why=BRANCH)


def test_it_compiles_in_one_piece(kata, accelerator):
    whole = torch.compile(kata.limit_scores, fullgraph=True, backend="eager")
    scores = torch.tensor([[1.0, 4.0]])
    try:
        limited = whole(scores, 2.0)
    except RuntimeError as error:
        raise KataFailure(
            Diagnosis(
                expected="`torch.compile` to compile `limit_scores` in one piece",
                did=f"made it stop: {str(error).splitlines()[0]}",
                why=BRANCH,
            )
        ) from None
    expect_equal(limited, torch.tensor([[0.5, 2.0]]), call="limit_scores([[1, 4]], 2.0), compiled")


def common_steps(accelerator):
    rows = {
        "4 scores": ([[1.0, -8.0], [4.0, 2.0]], [[0.5, -4.0], [2.0, 1.0]]),
        "1 score": ([[8.0]], [[2.0]]),
        "small scores": ([[0.5, 0.25]], [[0.5, 0.25]]),
        "scores of 2**100": ([[2.0**100, 2.0**99]], [[2.0, 1.0]]),
    }
    return [
        Step(
            f"limit_scores({words}, 2.0)", (scores_on(accelerator, *given), 2.0), torch.tensor(out)
        )
        for words, (given, out) in rows.items()
    ]


COMMON = Common(
    make=lambda kata, accelerator: kata.limit_scores,
    steps=common_steps,
    sized=lambda accelerator, n: Step("", (torch.ones(n, 4).to(accelerator.device), 2.0), None),
)
