"""Token type ids of a pooling batch: 0 for the first text of a request, 1 for its second."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from solutions.common.host_integers import HostIntegers
from solutions.common.packed_upload import DeviceArrays, Planned, upload_and_apply

from ..checks.requests import check_token_types


def _init_model_kwargs(
    token_type_starts: Mapping[int, int],
    seq_lens: torch.Tensor,
    optimistic_seq_lens_cpu: torch.Tensor,
    num_reqs: int,
) -> dict[str, torch.Tensor]:
    """Returns {"token_type_ids": [sum of the first num_reqs lengths] int32 on the device}, one
    request after the other (vLLM #41429).

    `token_type_starts` maps a request to the position from which on its ids are 1. Ids before it
    are 0, and so are all ids of a request that is missing. `seq_lens` and `optimistic_seq_lens_cpu`
    are [max_reqs] int32, on the device and on the host. The host's lengths are used as they are.
    They are an upper bound under speculative decoding, which pooling does not have.
    """
    plan = plan_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    device = seq_lens.device
    return {"token_type_ids": upload_and_apply(plan, device, device)}


def plan_token_types(
    token_type_starts: Mapping[int, int], optimistic_seq_lens_cpu: HostIntegers, num_reqs: int
) -> Planned[[torch.device], torch.Tensor]:
    """Plans the upload of the places where ids change, or of none if all ids are 0."""
    lengths = check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    boundaries, end = [], 0
    for request, length in enumerate(lengths.tolist()):
        start = token_type_starts.get(request, length)
        boundaries += [end + min(max(start, 0), length), end + length]
        end += length

    def apply(on_device: DeviceArrays, device: torch.device) -> torch.Tensor:
        if not token_type_starts:
            return torch.zeros(end, dtype=torch.int32, device=device)
        place = torch.arange(end, device=device)
        # Zeros and ones alternate, so an id is the parity of the number of boundaries passed.
        passed = torch.bucketize(place, on_device["boundaries"], right=True, out_int32=True)
        return passed.bitwise_and_(1)

    arrays = {"boundaries": np.array(boundaries, np.int64)} if token_type_starts else {}
    return Planned(arrays, apply)
