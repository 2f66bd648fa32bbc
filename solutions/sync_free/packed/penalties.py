"""Counting tokens, planned: rows and lengths of the new requests are part of the common upload."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays

from ..checks.rows import Integers, check_counted
from ..kernels.penalties import count_tokens


def plan_bincount(
    req_indices: Integers,
    prompt_lens: Integers,
    prefill_lens: Integers,
    max_reqs: int,
    max_len: int,
) -> BincountPlan:
    """Returns the arrays to count the tokens of n requests, checked and ready to upload. The
    arguments and errors are those of the site `bincount`, whose table of tokens is [max_reqs,
    max_len]."""
    check_counted(req_indices, prompt_lens, prefill_lens, max_reqs, max_len)
    prefills = np.asarray(prefill_lens, np.int32)
    arrays: HostArrays = {
        # index_fill_ needs int64; any other dtype would be converted on the device first.
        "rows": np.asarray(req_indices, np.int64),
        "prompt_lens": np.asarray(prompt_lens, np.int32),
        "prefill_lens": prefills,
    }
    return BincountPlan(arrays, int(prefills.max(initial=0)))


@dataclass(frozen=True)
class BincountPlan:
    """The requests whose tokens are to be counted. `arrays` has `rows` [n] int64, their rows in the
    tables, and `prompt_lens` and `prefill_lens` [n] int32."""

    arrays: HostArrays
    max_prefill_len: int

    def apply(
        self,
        on_device: DeviceArrays,
        all_token_ids: torch.Tensor,
        prompt_bin_mask: torch.Tensor,
        output_bin_counts: torch.Tensor,
    ) -> None:
        """Zeroes the requests' rows in the mask and the counts, then counts their tokens: three
        kernels."""
        tables = prompt_bin_mask, output_bin_counts
        for table in tables:
            table.index_fill_(0, on_device["rows"], 0)
        count_tokens(on_device, all_token_ids, *tables, self.max_prefill_len)
