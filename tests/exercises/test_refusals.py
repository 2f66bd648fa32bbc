"""`expect_refusal` checks that wrong arguments raise ValueError and change nothing."""

import pytest
import torch

from debubble.exercises import KataFailure, expect_refusal


def raises(error):
    raise error


def test_a_value_error_is_what_is_asked_for():
    expect_refusal(lambda: raises(ValueError("row 7")), "row 7", why="")


@pytest.mark.parametrize(
    ("call", "did"),
    [
        (lambda: None, "Your code raised nothing."),
        (lambda: raises(IndexError("row 7.\nMore")), "Your code raised IndexError: row 7."),
    ],
)
def test_anything_else_is_told(call, did):
    with pytest.raises(KataFailure) as failure:
        expect_refusal(call, "row 7", why="Nobody has it.")
    told = str(failure.value)
    assert told.startswith("Expected a ValueError for row 7.") and did in told
    assert "Nobody has it." in told


def test_what_is_kept_has_not_changed():
    table = torch.zeros(3)
    with pytest.raises(KataFailure, match="after row 7 was refused"):
        expect_refusal(lambda: (table.add_(1), raises(ValueError())), "row 7", why="", table=table)
