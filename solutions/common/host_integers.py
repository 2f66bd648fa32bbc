"""Integers on the host: read and checked without a host sync."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import torch

HostIntegers = np.ndarray | torch.Tensor
"""One-dimensional integers in host memory."""


def is_integer(value: object) -> bool:
    """Returns True for integers of Python and numpy, but not for True and False."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def are_ints(values: Iterable) -> bool:
    """Returns True if all `values` are Python's integers, and neither numpy's nor True or False. It
    is much quicker than a call of `is_integer` for each value."""
    return set(map(type, values)) <= {int}


def are_indices(values: Collection, size: int) -> bool:
    """Returns True if all `values` are integers in [0, size), checked as one array."""
    numbers = np.array([*values])
    if not numbers.size:
        return True
    is_row = numbers.ndim == 1 and numbers.dtype.kind in "iu"
    return bool(is_row and numbers.min() >= 0 and numbers.max() < size)


def host_integers(name: str, numbers: HostIntegers) -> np.ndarray:
    """Returns `numbers` as a numpy array, int64 [n]. Raises ValueError, which calls them `name`,
    for a tensor on the device, and for anything but a row of integers."""
    if isinstance(numbers, torch.Tensor):
        if numbers.device.type != "cpu":
            raise ValueError(
                f"{name} is on {numbers.device}, where to read it is to wait: give it on the host"
            )
        numbers = numbers.numpy()
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"{name} is {numbers.dtype} {list(numbers.shape)}: it must be integers in one dimension"
        )
    return numbers.astype(np.int64)


def sequence_lengths(
    name: str, starts: HostIntegers, num_tokens: int | None = None, noun: str = "sequence"
) -> np.ndarray:
    """Returns [num_seqs] int64, the lengths of sequences. `starts` [num_seqs + 1], integers on the
    host, has the start of each sequence, then the end of the last one.

    Raises ValueError, which calls them `name` and a sequence `noun`, if `starts` is no row of
    integers on the host, doesn't begin at 0, decreases, or doesn't end at `num_tokens`, if given.
    """
    starts = host_integers(name, starts)
    if not starts.size or starts[0] != 0:
        found = f"starts at {starts[0]}" if starts.size else "is empty"
        raise ValueError(f"{name} {found}: the first {noun} starts at 0")
    lengths = np.diff(starts)
    if lengths.min(initial=0) < 0:
        at = int(np.argmax(lengths < 0))
        raise ValueError(
            f"{name} goes from {starts[at]} down to {starts[at + 1]} at {noun} {at}: a {noun} ends "
            "where the next one starts, and never before its own start"
        )
    if num_tokens is not None and starts[-1] != num_tokens:
        raise ValueError(
            f"{name} ends at {starts[-1]}, and there are {num_tokens} tokens: the last {noun} ends "
            "with the last token"
        )
    return lengths
