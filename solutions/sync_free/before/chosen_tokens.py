"""The tokens whose log-probability is needed: the sampled one, and those that a row asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ..checks.requests import ChosenTokens, check_requested


def chosen_tokens(
    requested: Mapping[int, Sequence[int]], sampled: torch.Tensor, vocab_size: int
) -> ChosenTokens | None:
    """Returns the ids of each row on the device, or None if `requested` is empty (vLLM #41429).

    `requested` maps rows to the ids that they request, in order; rows may be missing, lists empty.
    `sampled` is [num_rows] integers on the device, which the host doesn't know yet. Raises
    ValueError for a row that is not in the batch, and for an id that is not in [0, vocab_size).
    """
    if not requested:
        return None
    check_requested(requested, len(sampled), vocab_size)
    device = sampled.device
    width = 1 + max(len(token_ids) for token_ids in requested.values())
    ids = torch.zeros(len(sampled), width, dtype=torch.int32, device=device)
    counts = torch.ones(len(sampled), dtype=torch.int32, device=device)
    ids[:, 0] = sampled
    for row, token_ids in requested.items():
        count = 1 + len(token_ids)
        ids[row, 1:count] = torch.tensor(token_ids, dtype=torch.int32, device=device)
        counts[row : row + 1] = count
    return ChosenTokens(ids, counts)
