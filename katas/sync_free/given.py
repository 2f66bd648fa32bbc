"""The code that the exercises in this folder are given.

`debubble check --write-stubs` writes this file. To change a function, copy it into your exercise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch

from debubble.accelerator import Stream

HostIntegers = np.ndarray | torch.Tensor
LONGEST = 60
BadWordsTokenIds = Mapping[int, Sequence[Sequence[int]]]
Integers = Sequence[int] | np.ndarray
Decode = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


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


def is_integer(value: object) -> bool:
    """Returns True for integers of Python and numpy, but not for True and False."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


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


def check_token_types(
    token_type_starts: Mapping[int, int], optimistic_seq_lens_cpu: HostIntegers, num_reqs: int
) -> np.ndarray:
    """Returns the lengths of the requests, [num_reqs] int64.

    Raises ValueError for lengths that are negative or not on the host, for more requests than
    lengths, and for a start that is no integer or belongs to a request that does not exist.
    """
    lengths = host_integers("optimistic_seq_lens_cpu", optimistic_seq_lens_cpu)
    if not 0 <= num_reqs <= len(lengths):
        raise ValueError(
            f"{num_reqs} requests, and the lengths of {len(lengths)}: num_reqs must be at least 0, "
            "and no more than there are lengths"
        )
    lengths = lengths[:num_reqs]
    negative = np.flatnonzero(lengths < 0)
    if negative.size:
        request = int(negative[0])
        raise ValueError(
            f"request {request} has a length of {lengths[request]}: lengths are at least 0"
        )
    for request, start in token_type_starts.items():
        if not is_integer(request) or not 0 <= request < num_reqs:
            raise ValueError(
                f"token types start in request {shown(request)}, and this batch has {num_reqs} "
                "requests: leave it out"
            )
        if not is_integer(start):
            raise ValueError(
                f"the token types of request {request} start at {shown(start)}: give an integer"
            )
    return lengths


def _check_list(what: str, values: object) -> None:
    """Raises ValueError unless `values` is a list on the host, since the host would wait for each
    value of a tensor on the device."""
    on_host = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    if not on_host and not (isinstance(values, torch.Tensor) and values.is_cpu and values.dim()):
        raise ValueError(f"{what} is {shown(values)}: give a list of ids")


def check_bad_words(bad_words_token_ids: BadWordsTokenIds, *shape: int) -> None:
    """Raises ValueError with the first row, sequence or id that can't be right for logits of this
    `shape`, which is (rows, ids of the vocabulary)."""
    if len(shape) != 2:
        raise ValueError(f"logits of shape {list(shape)}: make them [rows, vocabulary]")
    num_rows, vocab_size = shape
    for row, sequences in bad_words_token_ids.items():
        if not is_integer(row) or not 0 <= row < num_rows:
            raise ValueError(f"bad words for row {shown(row)}: the logits have {num_rows} rows")
        _check_list(f"the bad words of row {row}", sequences)
        for sequence in sequences:
            _check_list(f"a bad word of row {row}", sequence)
            if not len(sequence):
                raise ValueError(f"an empty bad word for row {row}: it needs at least one id")
            for token_id in sequence:
                if not is_integer(token_id) or not 0 <= token_id < vocab_size:
                    raise ValueError(
                        f"token id {shown(token_id)} in a bad word for row {row}: "
                        f"the vocabulary has {vocab_size} ids"
                    )


def check_past_tokens(past_tokens_ids: Sequence[Sequence[int]], num_rows: int) -> None:
    """Raises ValueError unless every row of the logits has a list of its generated ids, on the
    host."""
    if len(past_tokens_ids) != num_rows:
        raise ValueError(
            f"past tokens of {len(past_tokens_ids)} rows for logits of {num_rows}: "
            "give every row a list, be it empty"
        )
    for row, past in enumerate(past_tokens_ids):
        if not isinstance(past, torch.Tensor):
            _check_list(f"the past tokens of row {row}", past)
        elif past.device.type != "cpu":
            raise ValueError(
                f"the past tokens of row {row} are on {past.device}, where to read them is to "
                "wait: give them on the host"
            )


class ChosenTokens(NamedTuple):
    """The tokens whose log-probabilities each row of the batch requests, on the device."""

    ids: torch.Tensor
    """[num_rows, 1 + most ids of a row] int32: the sampled token, the requested ids, then zeros."""
    counts: torch.Tensor
    """[num_rows] int32: how many ids each row has before its zeros, the sampled token included."""


def check_requested(requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int) -> None:
    """Raises ValueError for a row that is not in the batch, and for an id not in the vocabulary."""
    for row, token_ids in requested.items():
        if not is_integer(row) or not 0 <= row < num_rows:
            raise ValueError(
                f"row {shown(row)} asks for log-probabilities: this batch has {num_rows} rows, "
                "counted from 0"
            )
        _check_list(f"what row {row} asks for", token_ids)
        for token_id in token_ids:
            if not is_integer(token_id) or not 0 <= token_id < vocab_size:
                raise ValueError(
                    f"row {row} asks for the log-probability of token {shown(token_id)}: ids must "
                    f"be in [0, {vocab_size})"
                )


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


class Ranks(Protocol):
    """A group of ranks that step side by side, as seen by one of them."""

    rank: int
    """The number of this rank, from 0."""
    size: int
    """Number of ranks."""
    stream: Stream
    """The stream of the exchanges between ranks: nothing else is queued here."""

    def own_column(
        self, original_tokens: int, padded_tokens: int, should_ubatch: bool, cudagraph_mode: int
    ) -> torch.Tensor:
        """Returns [4, size] int32 on the device: this rank's column, and zeros elsewhere. Uploads
        nothing."""

    def all_reduce(self, state: torch.Tensor) -> None:
        """Sums `state` over all ranks, in place, on the current stream."""


class Wait(NamedTuple):
    """A cause of a wait, and the function and source text of the line that asked for it."""

    what: str
    function: str
    line: str
