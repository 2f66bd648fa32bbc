"""Token type ids of a pooling batch: 0 for the first text of a request, 1 for its second."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from solutions.common.h2d import async_tensor_h2d

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
    check_token_types(token_type_starts, optimistic_seq_lens_cpu, num_reqs)
    lengths = optimistic_seq_lens_cpu[:num_reqs].tolist()
    device, boundaries, end = seq_lens.device, [], 0
    for request, length in enumerate(lengths):
        start = token_type_starts.get(request, length)
        boundaries += [end + min(max(start, 0), length), end + length]
        end += length
    if not token_type_starts:
        return {"token_type_ids": torch.zeros(end, dtype=torch.int32, device=device)}
    sent = async_tensor_h2d(boundaries, device, torch.int64)
    # Zeros and ones alternate, so an id is the parity of the number of boundaries passed.
    passed = torch.bucketize(torch.arange(end, device=device), sent, right=True, out_int32=True)
    return {"token_type_ids": passed.bitwise_and_(1)}
