"""Refuses rows of tables that can't be cleared, moved or counted, and indices that don't fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from solutions.common.host_integers import host_integers
from solutions.common.shown import shown

Integers = Sequence[int] | np.ndarray
"""One-dimensional integers on the host."""


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


def check_counted(
    req_indices: Integers,
    prompt_lens: Integers,
    prefill_lens: Integers,
    max_reqs: int,
    max_len: int,
) -> None:
    """Raises ValueError for values that are no integers; for a request that is not in [0,
    max_reqs); for a request that is named twice, since its tokens would count double; and for
    lengths that are not 0 <= prompt_len <= prefill_len <= max_len."""
    check_rows(req_indices, max_reqs, "req_indices")
    requests = _integers("req_indices", req_indices)
    prompts = _integers("prompt_lens", prompt_lens)
    prefills = _integers("prefill_lens", prefill_lens)
    if not len(requests) == len(prompts) == len(prefills):
        raise ValueError(
            f"{len(requests)} requests, {len(prompts)} prompt lengths and {len(prefills)} prefill "
            "lengths: there must be one of each for every request"
        )
    wrong = np.flatnonzero((prompts < 0) | (prompts > prefills) | (prefills > max_len))
    if wrong.size:
        at = wrong[0]
        raise ValueError(
            f"request {requests[at]} has a prompt of {prompts[at]} tokens, and {prefills[at]} in "
            f"all: 0 <= prompt <= all <= {max_len} must hold, as the table has {max_len} a request"
        )
    known, times = np.unique(requests, return_counts=True)
    often = np.flatnonzero(times > 1)
    if often.size:
        raise ValueError(
            f"request {known[often[0]]} is named {times[often[0]]} times, and its tokens would be "
            "counted as often: name it once"
        )


def check_indices(buffer: torch.Tensor, logits_indices: torch.Tensor, num_padded: int) -> None:
    """Raises ValueError unless `buffer` is [max_tokens] int32, `logits_indices` [n] int32 or int64
    on the same device, and 1 <= n <= num_padded <= max_tokens. Reads no value."""
    num_indices = logits_indices.numel()
    if num_indices < 1:
        raise ValueError(
            f"{num_indices} logits indices: there must be one at least, for the tail repeats the "
            "last of them"
        )
    if buffer.dim() != 1 or buffer.dtype != torch.int32 or not buffer.is_contiguous():
        raise ValueError(
            f"a buffer of {buffer.dtype} {list(buffer.shape)}: make it torch.int32 [max_tokens]"
        )
    if num_indices > len(buffer):
        raise ValueError(f"{num_indices} logits indices: this buffer holds {len(buffer)}")
    if not num_indices <= num_padded <= len(buffer):
        raise ValueError(
            f"{num_indices} logits indices padded to {num_padded}: choose a size between "
            f"{num_indices} and the {len(buffer)} of the buffer"
        )
    if logits_indices.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"logits indices of {logits_indices.dtype}: use int32 or int64")
    if logits_indices.dim() != 1:
        raise ValueError(
            f"logits indices of shape {list(logits_indices.shape)}: make them [{num_indices}]"
        )
    if logits_indices.device != buffer.device:
        raise ValueError(
            f"logits indices on {logits_indices.device}, and the buffer on {buffer.device}: "
            "send them there once, without waiting"
        )


def share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if a write to one of two tensors may change the other."""
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
