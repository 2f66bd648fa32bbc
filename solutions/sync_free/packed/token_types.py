"""Token type ids of a pooling batch, from lengths that the host knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers, host_integers
from solutions.common.packed_upload import DeviceArrays, HostArrays, upload_packed


def _init_model_kwargs(
    token_type_starts: Mapping[int, int],
    seq_lens: torch.Tensor,
    optimistic_seq_lens_cpu: torch.Tensor,
    num_reqs: int,
) -> dict[str, torch.Tensor]:
    """{"token_type_ids": [sum of the first num_reqs lengths] int32 on the device}, one request
    after the other (vLLM #41429).

    `token_type_starts`: request -> position from which on its ids are 1. Before that they are 0,
    as are all ids of a request that is absent. `seq_lens` and `optimistic_seq_lens_cpu`:
    [max_reqs] int32, on the device and on the host. The lengths are the host's, as they are: an
    upper bound under speculative decoding, which pooling does not have.
    """
    plan = plan_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    device = seq_lens.device
    return {"token_type_ids": plan.apply(upload_packed(plan.arrays, device), device)}


def plan_token_types(
    token_type_starts: Mapping[int, int], optimistic_seq_lens_cpu: HostIntegers, num_reqs: int
) -> TokenTypesPlan:
    """ValueError for lengths that are not on the host or negative, for more requests than there
    are lengths, and for a start of a request that does not exist."""
    lengths = _lengths_of(optimistic_seq_lens_cpu, num_reqs)
    for request in token_type_starts:
        if not 0 <= request < num_reqs:
            raise ValueError(
                f"token types start in request {request}, and this batch has {num_reqs} requests: "
                "leave it out"
            )
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
    """Where the ids change. `boundaries`: [2 * num_reqs] int64, for each request the place of its
    first 1 among all tokens, then its end; no array at all when every id is 0."""

    arrays: HostArrays
    num_tokens: int

    def apply(self, on_device: DeviceArrays, device: torch.device) -> torch.Tensor:
        """[num_tokens] int32 on the device."""
        if not self.arrays:
            return torch.zeros(self.num_tokens, dtype=torch.int32, device=device)
        place = torch.arange(self.num_tokens, device=device)
        # Zeros and ones take turns, so an id is odd or even as the boundaries passed so far are.
        passed = torch.bucketize(place, on_device["boundaries"], right=True, out_int32=True)
        return passed.bitwise_and_(1)


def _lengths_of(optimistic_seq_lens_cpu: HostIntegers, num_reqs: int) -> np.ndarray:
    """[num_reqs] int64."""
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
    return lengths
