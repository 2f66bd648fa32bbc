"""The ids that requests ask for as they were: the host waits for the device once a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ...packed.chosen_tokens import ChosenTokens


def chosen_tokens(
    requested: Mapping[int, Sequence[int]], sampled: torch.Tensor, vocab_size: int
) -> ChosenTokens | None:
    """The ids of each row on the device, or None when `requested` is empty."""
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


def check_requested(requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int) -> None:
    """ValueError for a row that is not in the batch, and for an id not in the vocabulary."""
    for row, token_ids in requested.items():
        if not 0 <= row < num_rows:
            raise ValueError(
                f"row {row} asks for log-probabilities: this batch has {num_rows} rows, counted "
                "from 0"
            )
        for token_id in token_ids:
            if not 0 <= token_id < vocab_size:
                raise ValueError(
                    f"row {row} asks for the log-probability of token {token_id}: ids must be in "
                    f"[0, {vocab_size})"
                )
