"""Token type ids as they were: the length of every request is read back from the device."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def _init_model_kwargs(
    token_type_starts: Mapping[int, int],
    seq_lens: torch.Tensor,
    optimistic_seq_lens_cpu: torch.Tensor,
    num_reqs: int,
) -> dict[str, torch.Tensor]:
    """{"token_type_ids": [sum of the first num_reqs lengths] int32 on the device}.

    A host sync for each request, and one for the pageable upload at the end.
    """
    token_type_ids = [torch.empty(0, dtype=torch.int32)]
    for request in range(num_reqs):
        positions = torch.arange(int(seq_lens[request]))
        start = token_type_starts.get(request, len(positions))
        token_type_ids.append((positions >= start).int())
    return {"token_type_ids": torch.cat(token_type_ids).to(seq_lens.device)}
