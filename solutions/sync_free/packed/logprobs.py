"""Log-probabilities, planned: the ids requested by all rows are uploaded side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from solutions.common.host_integers import are_indices
from solutions.common.packed_upload import DeviceArrays, HostArrays

from ..checks.requests import check_requested
from ..kernels.logprobs import LogprobsTensors, score_tokens


def plan_logprobs(
    requested: Mapping[int, Sequence[int]], num_rows: int, vocab_size: int
) -> LogprobsPlan:
    """Returns the arrays to look up the ids in `requested`, a map from rows to ids. Raises
    ValueError for a row that is not in the batch, and for an id not in [0, vocab_size)."""
    if not requested:
        return LogprobsPlan({}, num_rows, 0)
    all_ids = list(chain.from_iterable(requested.values()))
    if not (are_indices(requested, num_rows) and are_indices(all_ids, vocab_size)):
        # The slow check finds the value to name.
        check_requested(requested, num_rows, vocab_size)
    rows = np.fromiter(requested.keys(), np.int64, len(requested))
    lengths = np.fromiter(map(len, requested.values()), np.int64, len(requested))
    ids = np.array(all_ids, np.int32)
    width = 1 + int(lengths.max())
    first_id = np.repeat(np.cumsum(lengths) - lengths, lengths)
    counts = np.ones(num_rows, dtype=np.int32)
    counts[rows] += lengths
    arrays = {
        "places": np.repeat(rows, lengths) * width + 1 + np.arange(len(ids)) - first_id,
        "ids": ids,
        "counts": counts,
    }
    return LogprobsPlan(arrays, num_rows, width)


@dataclass(frozen=True)
class LogprobsPlan:
    """The ids whose log-probabilities the rows request, before their upload. In `arrays`, which is
    empty if `requested` is:

    ids      [num_ids] int32: the ids, one row after the other
    places   [num_ids] int64: where each id goes in [num_rows * width]
    counts   [num_rows] int32: how many ids of a row are meant, the sampled one included

    So the upload grows with the number of requested ids, and not with the longest row.
    """

    arrays: HostArrays
    num_rows: int
    width: int

    def apply(
        self, on_device: DeviceArrays, logits: torch.Tensor, sampled: torch.Tensor
    ) -> LogprobsTensors | None:
        """Returns the log-probabilities of the sampled tokens and the requested ids; None if
        `requested` was empty. `logits`: [num_rows, vocab_size]; `sampled`: [num_rows] integers;
        both on the device."""
        if not self.arrays:
            return None
        ids = torch.zeros(self.num_rows, self.width, dtype=torch.int32, device=sampled.device)
        ids.view(-1).index_copy_(0, on_device["places"], on_device["ids"])
        ids[:, 0] = sampled
        return LogprobsTensors(ids, *score_tokens(logits, ids, on_device["counts"]))
