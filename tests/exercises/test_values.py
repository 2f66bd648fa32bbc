"""Claims about returned values: the first difference is named, and its likely cause."""

import pytest
import torch

from debubble.exercises import KataFailure, expect_equal


def difference(actual, expected, **options) -> str:
    with pytest.raises(KataFailure) as raised:
        expect_equal(actual, expected, call="f()", **options)
    return str(raised.value)


@pytest.mark.parametrize(
    "actual, expected",
    [
        (3, 3),
        (None, None),
        (0.5, 0.5),
        ("a", "a"),
        ([1, 2], (1, 2)),
        (torch.arange(3), torch.arange(3)),
        (torch.tensor([float("inf")]), torch.tensor([float("inf")])),
        ([torch.ones(2), None], [torch.ones(2), None]),
    ],
)
def test_equal_values_are_silent(actual, expected):
    expect_equal(actual, expected, call="f()")


def test_two_sentences_name_both_values():
    assert difference(3, 4) == "Expected f() to return 4.\nYour code returned 3."


def test_what_was_not_returned_is_named_as_a_value():
    with pytest.raises(KataFailure) as raised:
        expect_equal(3, 4, value="the second row")
    assert str(raised.value) == "Expected the second row to be 4.\nYour code made it 3."


def test_the_first_difference_of_two_tensors_is_named():
    actual = torch.tensor([[1, 2], [3, 9]])
    text = difference(actual, torch.tensor([[1, 2], [3, 4]]))
    assert "returned [[1, 2], [3, 9]] (int64 [2, 2])" in text
    assert "the first difference is at [1, 1], 9 and not 4" in " ".join(text.split())


def test_a_long_tensor_is_told_by_its_shape():
    assert "a tensor of float32 [64]" in difference(torch.zeros(64), torch.ones(64))


def test_of_a_long_table_the_first_row_that_differs_is_shown():
    expected = torch.arange(40).view(20, 2)
    actual = expected.clone()
    actual[7, 1] = 0
    assert difference(actual, expected) == (
        "Expected row 7 of f() to be [14, 15] (int64 [2]).\n"
        "Your code made it [14, 0] (int64 [2]): the first difference is at [1], 0 and not 15."
    )


def test_shape_comes_before_dtype_and_dtype_before_values():
    assert "its shape is [3] and not [2]" in difference(torch.ones(3), torch.ones(2).int())
    assert "its dtype is torch.int64 and not torch.int32" in difference(
        torch.tensor([1]), torch.ones(1, dtype=torch.int32)
    )


def test_a_wrong_dtype_has_a_cause_of_its_own():
    text = difference(torch.tensor([1]), torch.ones(1, dtype=torch.int32), likely="A race?")
    assert text.endswith("Name the dtype where the tensor is made: `dtype=torch.int32`.")


def test_nan_is_never_right():
    assert difference(float("nan"), 1.0).endswith("Your code returned nan.")
    assert "nan and not 1.0" in difference(torch.tensor([float("nan")]), torch.ones(1))


def test_a_tolerance_is_absolute():
    expect_equal(1.05, 1.0, call="f()", tolerance=0.1)
    expect_equal(torch.tensor([1.05]), torch.ones(1), call="f()", tolerance=0.1)
    assert "it differs by 0.2" in difference(1.2, 1.0, tolerance=0.1)


def test_an_item_of_a_list_is_named():
    assert "Item 1 is 3 and not 2" in difference([1, 3], [1, 2])
    assert "it has 1 item and not 2" in difference([1], [1, 2])


def test_a_tensor_in_place_of_a_number_is_told():
    assert "a tensor and no float" in difference(torch.tensor(1.0), 1.0)
    assert "a tensor and not None" in difference(torch.tensor(1.0), None)
    assert "Your code returned None, which is no tensor." in difference(None, torch.ones(1))


def test_none_in_place_of_a_number_is_told():
    assert "Your code returned None." in difference(None, 1.0)


def test_the_likely_cause_may_depend_on_the_values():
    text = difference(6, 5, likely=lambda actual, expected: f"Off by {actual - expected}?")
    assert text.endswith("Off by 1?")
