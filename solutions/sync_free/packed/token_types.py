"""Token type ids, planned: the host sends the places where they change, two numbers per request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers
from solutions.common.packed_upload import DeviceArrays, HostArrays

from ..checks.requests import check_token_types


def plan_token_types(
    token_type_starts: Mapping[int, int], optimistic_seq_lens_cpu: HostIntegers, num_reqs: int
) -> TokenTypesPlan:
    """Returns where token type ids change, checked and ready to upload. The arguments and errors
    are those of the site `_init_model_kwargs`."""
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    total = int(lengths.sum())
    if not token_type_starts:
        return TokenTypesPlan({}, total)
    count = len(token_type_starts)
    requests = np.fromiter(token_type_starts.keys(), np.int64, count)
    starts = np.fromiter(token_type_starts.values(), np.int64, count)
    zeros = lengths.copy()
    zeros[requests] = np.clip(starts, 0, lengths[requests])
    ends = np.cumsum(lengths)
    boundaries = np.stack([ends - lengths + zeros, ends], axis=1)
    return TokenTypesPlan({"boundaries": boundaries.reshape(-1)}, total)


@dataclass(frozen=True)
class TokenTypesPlan:
    """The places among all tokens where the token type ids change. `arrays` has `boundaries`, [2 *
    num_reqs] int64: for each request the place of its first 1, then its end. It is empty if no
    request has a start."""

    arrays: HostArrays
    num_tokens: int

    def apply(self, on_device: DeviceArrays, device: torch.device) -> torch.Tensor:
        """Returns the token type ids: [num_tokens] int32 on the device."""
        if not self.arrays:
            return torch.zeros(self.num_tokens, dtype=torch.int32, device=device)
        place = torch.arange(self.num_tokens, device=device)
        # Zeros and ones alternate, so an id is the parity of the number of boundaries passed.
        passed = torch.bucketize(place, on_device["boundaries"], right=True, out_int32=True)
        return passed.bitwise_and_(1)
