"""Forty kinds of wrong arguments: for any argument, and for a tensor or a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


class Stranger:
    """An object that no function expects."""

    def __repr__(self) -> str:
        return "<a stranger>"


def of_anything(device: torch.device) -> dict[str, Callable[[], Any]]:
    """Returns {kind: function that makes a wrong value of this kind}, for any argument. Values are
    new in each call, since some can be read only once."""
    return {
        "None": lambda: None,
        "True": lambda: True,
        "a fraction": lambda: 1.5,
        "nan": lambda: float("nan"),
        "inf": lambda: float("inf"),
        "negative": lambda: -1,
        "very negative": lambda: -(2**40),
        "beyond int32": lambda: 2**31,
        "beyond int64": lambda: 2**63,
        "beyond floats": lambda: 10**400,
        "complex": lambda: 1j,
        "a word": lambda: "word",
        "a digit as a word": lambda: "3",
        "an empty word": lambda: "",
        "bytes": lambda: b"3",
        "an object": Stranger,
        "a class": lambda: Stranger,
        "a function": lambda: abs,
        "a generator": lambda: (number for number in (1, 2)),
        "a set": lambda: {1, 2},
        "an empty list": list,
        "a list of words": lambda: ["word"],
        "a list of fractions": lambda: [0.5, 1.5],
        "a list of flags": lambda: [True, False],
        "a list of None": lambda: [None],
        "a list of lists": lambda: [[1], [2, 3]],
        "a list of huge ones": lambda: [2**70],
        "an empty dict": dict,
        "a dict of words": lambda: {"word": "word"},
        "a dict of fractions": lambda: {0.5: [1.5]},
        "a dict of negatives": lambda: {-1: [-1]},
        "an array of words": lambda: np.array(["word"]),
        "an array of fractions": lambda: np.array([0.5, 1.5]),
        "a mask": lambda: np.array([True, False]),
        "an array of objects": lambda: np.array([None, "word"]),
        "an array of two dimensions": lambda: np.ones((2, 3), np.int64),
        "a number of the device": lambda: torch.ones((), dtype=torch.int64, device=device),
        "ids of the device": lambda: torch.ones(3, dtype=torch.int64, device=device),
        "fractions of the host": lambda: torch.full((2,), 0.5),
        "a tensor of meta": lambda: torch.ones(2, device="meta"),
        "complex tensor": lambda: torch.ones(2, dtype=torch.complex64),
    }


def of_tensor(right: torch.Tensor) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields (kind, function that makes a wrong value) for a tensor argument: tensors that differ
    from the right one in type, shape, strides or device, and its numbers as a list and as a NumPy
    array."""
    away = "cpu" if right.device.type != "cpu" else "meta"
    yield "on another device", lambda: torch.empty(right.shape, dtype=right.dtype, device=away)
    for dtype in (torch.float64, torch.int64, torch.int32, torch.float16, torch.int8, torch.bool):
        if dtype != right.dtype:
            yield f"as {dtype}", lambda dtype=dtype: right.to(dtype)
    yield "as a list", lambda: right.tolist()
    yield "as numpy", lambda: right.cpu().float().numpy()
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


def of_sequence(right: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields (kind, function that makes a wrong value) for a list argument: lists that differ from
    the right one in length, in order, or in one of their members."""
    listed = list(right)
    yield "one short", lambda: listed[:-1]
    yield "one more", lambda: [*listed, *listed[-1:]]
    yield "backwards", lambda: listed[::-1]
    for name, wrong in (
        ("None", None), ("a fraction", 0.5), ("True", True), ("a word", "word"),
        ("a negative", -1), ("a huge one", 2**70), ("a list", [[1]]),
    ):  # fmt: skip
        yield f"with {name} in it", lambda wrong=wrong: [wrong, *listed[1:]]


def of(right: Any, device: torch.device) -> dict[str, Callable[[], Any]]:
    """Returns {kind: function that makes a wrong value} for an argument whose right value is
    `right`."""
    kinds = of_anything(device)
    if isinstance(right, torch.Tensor):
        kinds |= dict(of_tensor(right))
    elif isinstance(right, list | tuple | np.ndarray) and not hasattr(right, "_fields"):
        kinds |= dict(of_sequence(right))
    return kinds
