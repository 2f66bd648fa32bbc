"""Token type ids of a pooling batch: 0 for the first text of a request, 1 for its second."""

from __future__ import annotations

from collections.abc import Mapping

import torch

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
    token_type_ids = [torch.empty(0, dtype=torch.int32)]
    for request in range(num_reqs):
        positions = torch.arange(int(seq_lens[request]))
        start = token_type_starts.get(request, len(positions))
        token_type_ids.append((positions >= start).int())
    return {"token_type_ids": torch.cat(token_type_ids).to(seq_lens.device)}
