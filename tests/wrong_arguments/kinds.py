"""Wrong values for an argument, of the right type: numbers, words, dicts, tensors and lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

NUMBERS: dict[str, Any] = {
    "negative": -1,
    "very negative": -(2**40),
    "beyond int32": 2**31,
    "beyond int64": 2**63,
}
"""Wrong values of an integer, by kind."""


def of_tensor(right: torch.Tensor) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields (kind, function that makes a wrong value) for a tensor argument: tensors that differ
    from the right one in dtype, shape, strides or device."""
    away = "cpu" if right.device.type != "cpu" else "meta"
    yield "on another device", lambda: torch.empty(right.shape, dtype=right.dtype, device=away)
    for dtype in (torch.float64, torch.int64, torch.int32, torch.float16, torch.int8, torch.bool):
        if dtype != right.dtype:
            yield f"as {dtype}", lambda dtype=dtype: right.to(dtype)
    yield "with a dimension more", lambda: right.unsqueeze(0)
    yield "as a number", lambda: torch.empty((), dtype=right.dtype, device=right.device)
    yield "with nothing in it", lambda: right[:0] if right.dim() else right
    if right.dim():
        yield "with a dimension less", lambda: right.flatten() if right.dim() > 1 else right[0]
        yield "one row short", lambda: right[:-1]
        yield "one row more", lambda: torch.cat([right, right[-1:]])
        yield "with gaps", lambda: torch.stack([right, right], dim=-1)[..., 0]
        if len(right) > 1:
            yield "expanded", lambda: right[:1].expand(right.shape)
    if right.dim() > 1:
        yield "transposed", lambda: right.transpose(-1, -2).contiguous().transpose(-1, -2)
        yield "turned", lambda: right.transpose(-1, -2).contiguous()


def of_list(right: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields (kind, function that makes a wrong value) for a list or an array: ones that differ
    from the right one in length, in order, or in a number."""
    listed = list(right)
    made = np.array if isinstance(right, np.ndarray) else list
    yield "with nothing in it", lambda: right[:0]
    yield "one short", lambda: right[:-1]
    yield "one more", lambda: made([*listed, *listed[-1:]])
    yield "backwards", lambda: right[::-1]
    if listed and all(isinstance(each, int | np.integer) for each in listed):
        yield "with a negative in it", lambda: made([-1, *listed[1:]])
        yield "with a huge one in it", lambda: made([2**62, *listed[1:]])
        yield "of two dimensions", lambda: made([listed, listed])


def of(right: Any) -> dict[str, Callable[[], Any]]:
    """Returns {kind: function that makes a wrong value of this kind} for an argument whose right
    value is `right`; empty for an argument that is a flag, a device or an object of ours."""
    if isinstance(right, torch.Tensor):
        return dict(of_tensor(right))
    if isinstance(right, np.ndarray | list) or type(right) is tuple:
        return dict(of_list(right))
    if isinstance(right, bool):
        return {}
    if isinstance(right, int):
        return {kind: lambda wrong=wrong: wrong for kind, wrong in NUMBERS.items()}
    if isinstance(right, float):
        return {"nan": lambda: float("nan"), "inf": lambda: float("inf")}
    if isinstance(right, str):
        return {"a word": lambda: "word", "an empty word": lambda: ""}
    if isinstance(right, dict):
        any_value = next(iter(right.values()))
        return {"an empty dict": dict, "with a negative key": lambda: {-1: any_value}}
    return {}
