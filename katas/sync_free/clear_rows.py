"""A zero that does not travel (chapter 02, easy, 15 minutes).

Penalties count the tokens of each request's prompt and output, in rows of tables on the device.
When a request arrives or resumes, its rows are set to zero. The function below does that. But the
host waits for the upload of the row numbers, and then, for each table, for the upload of a zero.

Clear the rows without a wait: one pinned upload of the row numbers, and a zero that is not a
tensor. No kernel may pass over a whole table to clear a few rows, and 16 rows take as many launches
as 2. Pin the memory if the platform can: `pin_memory=current().pin_memory`, from
`debubble.accelerator`.

You need to know `index_fill_`, and that a Python number in it need not travel.

Edit this file, then run

    pytest katas/sync_free/test_clear_rows.py

Stuck?         debubble hint clear_rows
Start afresh?  debubble reset clear_rows
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

Integers = Sequence[int] | np.ndarray
HostIntegers = np.ndarray | torch.Tensor
LONGEST = 60


# Yours to edit, from here on.
def clear_rows(rows: Integers, tables: Sequence[torch.Tensor]) -> None:
    """Zeroes `rows` of each table, in place (vLLM #41429).

    `rows` are integers on the host, in any order, possibly repeated. `tables` are [max_reqs, ...]
    on the device, of any dtypes. Raises ValueError for a row that is not in every table.
    """
    check_rows(rows, min(len(table) for table in tables))
    on_device = torch.tensor(rows, dtype=torch.int64, device=tables[0].device)
    for table in tables:
        table[on_device] = 0


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


def check_rows(rows: Integers, max_reqs: int, name: str = "rows") -> None:
    """Raises ValueError, which calls the rows `name`, for values that are no integers, and for a
    row that is not in [0, max_reqs)."""
    numbers = _integers(name, rows)
    outside = numbers[(numbers < 0) | (numbers >= max_reqs)]
    if outside.size:
        raise ValueError(f"request {outside[0]}: rows must be in [0, {max_reqs})")


# endregion
