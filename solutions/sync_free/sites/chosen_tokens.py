"""The tokens whose log-probability is needed: the sampled one, and those that a row asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays, Planned, upload_and_apply

from ..checks.requests import ChosenTokens, check_all_requested


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
    plan = plan_chosen_tokens(requested, len(sampled), vocab_size)
    return upload_and_apply(plan, sampled.device, sampled)


def plan_chosen_tokens(
    requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int
) -> Planned[[torch.Tensor], ChosenTokens]:
    """Plans the upload of the requested ids and their places, not of whole rows."""
    check_all_requested(requested, num_rows, vocab_size)
    width = 1 + max(map(len, requested.values()), default=0)
    counts = np.ones(num_rows, np.int32)
    places: list[int] = []
    asked: list[int] = []
    for row, token_ids in requested.items():
        count = 1 + len(token_ids)
        places.extend(range(row * width + 1, row * width + count))
        asked.extend(token_ids)
        counts[row] = count

    def apply(on_device: DeviceArrays, sampled: torch.Tensor) -> ChosenTokens:
        ids = torch.zeros(num_rows, width, dtype=torch.int32, device=sampled.device)
        ids.view(-1).index_copy_(0, on_device["places"], on_device["asked"])
        ids[:, 0] = sampled
        return ChosenTokens(ids, on_device["counts"])

    arrays: HostArrays = {
        "places": np.array(places, np.int64),
        "asked": np.array(asked, np.int32),
        "counts": counts,
    }
    return Planned(arrays, apply)
