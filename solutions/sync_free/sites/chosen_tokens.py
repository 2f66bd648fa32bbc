"""The tokens whose log-probability is needed: the sampled one, and those that a row asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from solutions.common.packed_upload import HostArrays, upload_packed

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
    counts = np.ones(len(sampled), np.int32)
    places: list[int] = []
    asked: list[int] = []
    for row, token_ids in requested.items():
        count = 1 + len(token_ids)
        places.extend(range(row * width + 1, row * width + count))
        asked.extend(token_ids)
        counts[row] = count
    host: HostArrays = {
        "places": np.array(places, np.int64),
        "asked": np.array(asked, np.int32),
        "counts": counts,
    }
    sent = upload_packed(host, device)
    ids.view(-1).index_copy_(0, sent["places"], sent["asked"])
    ids[:, 0] = sampled
    return ChosenTokens(ids, sent["counts"])
