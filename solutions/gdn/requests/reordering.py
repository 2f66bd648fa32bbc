"""Separates speculative requests from all other requests of a batch, and their tokens too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from solutions.common.packed_upload import HostArrays

from .batch import RequestSplit, starts_of

BITS = 64
"""Number of requests that fit into one int64, with a bit for each."""


class Reordering(NamedTuple):
    """Indices and starts of a batch's speculative requests and tokens, and of all its other
    requests and tokens: tensors on the device, each in the batch's order.

    Rows are the requests' indices in the batch, [num_spec_decodes] and [num_prefills] int64. Starts
    are [... + 1] int32. Token indices are the tokens' indices in the batch,
    [num_spec_decode_tokens] and [num_prefill_tokens] int64.
    """

    spec_rows: torch.Tensor
    non_spec_rows: torch.Tensor
    spec_query_start_loc: torch.Tensor
    non_spec_query_start_loc: torch.Tensor
    spec_token_indices: torch.Tensor
    non_spec_token_indices: torch.Tensor


def plan_reordering(split: RequestSplit) -> HostArrays:
    """Returns the arrays of a batch's Reordering on the host, by the names of its fields, to be
    uploaded."""
    query_lens, is_speculative = split.lengths.query_lens, split.is_speculative
    token_is_speculative = np.repeat(is_speculative, query_lens)
    return {
        "spec_rows": np.flatnonzero(is_speculative),
        "non_spec_rows": np.flatnonzero(~is_speculative),
        "spec_query_start_loc": starts_of(query_lens[is_speculative]),
        "non_spec_query_start_loc": starts_of(query_lens[~is_speculative]),
        "spec_token_indices": np.flatnonzero(token_is_speculative),
        "non_spec_token_indices": np.flatnonzero(~token_is_speculative),
    }


def reorder_on_device(split: RequestSplit, query_start_loc: torch.Tensor) -> Reordering:
    """Returns a batch's Reordering, made on the device without an upload, by stable sorts of masks:
    the host knows how many requests and tokens are of each kind. `query_start_loc` is [num_requests
    + 1] int32 on the device."""
    query_lens = query_start_loc.diff()
    is_speculative = mask_on_device(split.is_speculative, query_lens.device)
    token_is_speculative = torch.repeat_interleave(
        is_speculative, query_lens, output_size=split.num_tokens
    )
    non_spec_rows, spec_rows = _both_kinds(is_speculative, split.num_spec_decodes)
    non_spec_tokens, spec_tokens = _both_kinds(token_is_speculative, split.num_spec_decode_tokens)
    return Reordering(
        spec_rows,
        non_spec_rows,
        _starts_on_device(query_lens.index_select(0, spec_rows)),
        _starts_on_device(query_lens.index_select(0, non_spec_rows)),
        spec_tokens,
        non_spec_tokens,
    )


def mask_on_device(mask: np.ndarray, device: torch.device) -> torch.Tensor:
    """Returns [n] uint8 on the device with the values of `mask`, [n] bool on the host. Nothing is
    copied: kernels that fill one number each get 64 bits as an argument. So a replayed graph has
    the mask of its capture."""
    padded = np.zeros(-(-len(mask) // BITS) * BITS, bool)
    padded[: len(mask)] = mask
    words = np.packbits(padded, bitorder="little").view("<i8")
    filled = torch.empty(len(words), dtype=torch.int64, device=device)
    for word, bits in zip(filled.unbind(), words.tolist(), strict=True):
        word.fill_(bits)
    place = torch.arange(BITS, device=device)
    all_bits = filled.unsqueeze(1).bitwise_right_shift(place).bitwise_and_(1)
    return all_bits.view(-1)[: len(mask)].to(torch.uint8)


def _both_kinds(mask: torch.Tensor, num_set: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (indices where `mask` is 0, indices where it is 1), both int64 and ascending.
    `num_set` is how many are 1."""
    order = torch.argsort(mask, stable=True)
    num_others = len(mask) - num_set
    return order[:num_others], order[num_others:]


def _starts_on_device(lengths: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
