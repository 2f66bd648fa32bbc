"""Rows that change places (chapter 02, medium, 20 minutes).

An n-gram speculator keeps each request's tokens in one row of a device tensor, and their number in
another tensor. As requests come and go, the remaining requests change rows, and `moves` says which
row goes where. The function below works. But it uploads the source rows, waits, uploads the target
rows, and waits again.

Upload all row numbers at once, pinned if `current().pin_memory` is true, and without a wait. Two
requests may swap places: read every row before you overwrite it. Rows that stay are neither read
nor written. 16 rows take as many launches as 2, and an empty `moves` takes none. Keep refusing the
inputs that the function refuses.

You need to know `index_select` and `index_copy_`, and pinned uploads.

Edit this file, then run

    pytest katas/sync_free/test_ngram_moves.py

Stuck?         debubble hint ngram_moves
Start afresh?  debubble reset ngram_moves
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

Integers = Sequence[int] | np.ndarray
HostIntegers = np.ndarray | torch.Tensor
LONGEST = 60


# Yours to edit, from here on.
def move_rows(tables: Sequence[torch.Tensor], moves: Sequence[tuple[int, int]]) -> None:
    """Copies each table's row `source` to row `target`, for every (source, target) of `moves`.

    The rows move in place, as if at the same moment: [(0, 1), (1, 0)] is a swap. Rows that are no
    target stay as they are. The tables are on the device and have the same number of rows. No row
    is the target of two moves (vLLM #41429).
    """
    if not moves:
        return
    check_moves(moves, len(tables[0]))
    sources, targets = zip(*moves, strict=True)
    device = tables[0].device
    source_rows = torch.tensor(sources, device=device)
    target_rows = torch.tensor(targets, device=device)
    for table in tables:
        table[target_rows] = table[source_rows].clone()


# region Given: what the code above uses. You may change it, and need not.


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


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) >= 10**LONGEST:
        return "an int of more than 60 digits"
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def shown(value: object) -> str:
    """Returns a number, a flag or a word itself, and a description of any other value, since
    printing a tensor reads it from the device."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return _short(value)
    if isinstance(value, torch.Tensor):
        return f"a {value.dtype} tensor {list(value.shape)} on {value.device}"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {list(value.shape)}"
    if isinstance(value, np.generic | torch.dtype | torch.device | range):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def _integers(name: str, numbers: Integers) -> np.ndarray:
    """Returns [n] int64. Raises ValueError, which calls the numbers `name`, for fractions, masks
    and words, and for tensors on the device."""
    if isinstance(numbers, torch.Tensor):
        return host_integers(name, numbers)
    if not isinstance(numbers, np.ndarray) and bool in {*map(type, numbers)}:
        raise ValueError(f"{name} is bool [{len(numbers)}]: it must be integers in one dimension")
    try:
        array = np.asarray(numbers) if len(numbers) else np.empty(0, np.int64)
    except ValueError:  # The lists have different lengths.
        raise ValueError(f"{name} is {shown(numbers)} of lists: it must be integers") from None
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} is {array.dtype} {list(array.shape)}: it must be integers in one dimension"
        )
    return array.astype(np.int64)


def check_moves(moves: Sequence[tuple[int, int]], num_rows: int) -> None:
    """Raises ValueError for moves, (source, target) pairs, that are no integers, for a row that
    does not exist, and for two moves to one row."""
    if any(len(move) != 2 for move in moves):
        raise ValueError(f"moves {list(moves)}: each must be a pair, (source, target)")
    flat = [row for move in moves for row in move]
    sources, targets = _integers("moves", flat).reshape(-1, 2).T
    for rows in (sources, targets):
        outside = (rows < 0) | (rows >= num_rows)
        if outside.any():
            raise ValueError(f"row {rows[outside][0]} in a move: there are {num_rows} rows")
    different, times = np.unique(targets, return_counts=True)
    if (times > 1).any():
        raise ValueError(f"{times.max()} rows move to row {different[times.argmax()]}: one can")


# endregion
