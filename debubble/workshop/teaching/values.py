"""`expect_equal`: claims about what the code under test returned, or about what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from .diagnosis import Diagnosis, KataFailure

LONGEST = 60
"""Characters of a value that a sentence can hold."""


def expect_equal(
    actual: Any,
    expected: Any,
    *,
    call: str = "",
    value: str = "",
    likely: str | Callable[[Any, Any], str] = "",
    tolerance: float = 0.0,
) -> None:
    """`actual` equals `expected`: what `call` returned, or else what `value` names.

    Tensors are compared by shape, dtype, then values, wherever they lie; of a long one the first
    row that differs is shown. `tolerance` is absolute.
    `likely` is the likely cause of a difference, or a function that finds it from the two values;
    a wrong dtype explains itself.
    Raises KataFailure.
    """
    difference = _difference(actual, expected, tolerance)
    if difference is None:
        return
    cause = likely(actual, expected) if callable(likely) else likely
    if _dtypes_differ(actual, expected):
        cause = f"Name the dtype where the tensor is made: `dtype={expected.dtype}`."
    row = _row_that_differs(actual, expected, tolerance)
    if row is not None:
        part = f"row {row} of {call or value}"
        expect_equal(actual[row], expected[row], value=part, likely=cause, tolerance=tolerance)
    raise KataFailure(
        Diagnosis(
            expected=f"{call or value} to {'return' if call else 'be'} {shown(expected)}",
            did=f"{'returned' if call else 'made it'} {shown(actual)}{difference}",
            why=cause,
        )
    )


def shown(value: Any) -> str:
    """The value in a few words: a short tensor in full, a long one by its shape."""
    if isinstance(value, torch.Tensor):
        values = str(_on_cpu(value).tolist())
        kind = f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        return f"{values} ({kind})" if len(values) <= LONGEST else f"a tensor of {kind}"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _difference(actual: Any, expected: Any, tolerance: float) -> str | None:
    """What differs, as the rest of "returned …", or None when nothing does."""
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(actual, expected, tolerance)
    if isinstance(actual, torch.Tensor):
        kind = "not None" if expected is None else f"no {type(expected).__name__}"
        return f", a tensor and {kind}"
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return _sequence_difference(actual, expected, tolerance)
    if isinstance(expected, float) and isinstance(actual, int | float):
        distance = abs(actual - expected)
        if distance <= tolerance or actual == expected:
            return None
        return "" if math.isnan(distance) else f": it differs by {distance:.3g}"
    return None if actual == expected else ""


def _tensor_difference(actual: Any, expected: Any, tolerance: float) -> str | None:
    if not isinstance(actual, torch.Tensor):
        return ", which is no tensor"
    if actual.shape != expected.shape:
        return f": its shape is {list(actual.shape)} and not {list(expected.shape)}"
    if actual.dtype != expected.dtype:
        return f": its dtype is {actual.dtype} and not {expected.dtype}"
    ours, theirs = _on_cpu(actual), _on_cpu(expected)
    same = (
        ours.isclose(theirs, rtol=0.0, atol=tolerance)
        if ours.is_floating_point()
        else ours == theirs
    )
    if bool(same.all()):
        return None
    index = (~same).nonzero()[0].tolist()
    place = f" at {index}" if index else ""
    return (
        f": the first difference is{place}, {ours[tuple(index)].item()} "
        f"and not {theirs[tuple(index)].item()}"
    )


def _dtypes_differ(actual: Any, expected: Any) -> bool:
    """Whether that is all there is to say of two tensors."""
    tensors = isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)
    return tensors and actual.shape == expected.shape and actual.dtype != expected.dtype


def _row_that_differs(actual: Any, expected: Any, tolerance: float) -> int | None:
    """The first one of two tensors that agree in all but values, and are too long to be shown."""
    if not (isinstance(actual, torch.Tensor) and isinstance(expected, torch.Tensor)):
        return None
    alike = actual.shape == expected.shape and actual.dtype == expected.dtype
    if not alike or expected.dim() < 2 or len(str(_on_cpu(expected).tolist())) <= LONGEST:
        return None
    rows = range(len(expected))
    return next(i for i in rows if _tensor_difference(actual[i], expected[i], tolerance))


def _sequence_difference(actual: Any, expected: Any, tolerance: float) -> str | None:
    if len(actual) != len(expected):
        return f": it has {len(actual)} items and not {len(expected)}"
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        difference = _difference(one, other, tolerance)
        if difference is not None:
            return f". Item {index} is {shown(one)} and not {shown(other)}{difference}"
    return None


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu()
