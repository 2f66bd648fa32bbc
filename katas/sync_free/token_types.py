"""Lengths that the host knows (chapter 02, medium, 25 minutes).

A model that scores two texts at once needs to know which token belongs to which text: a token's id
is 0 in the first text and 1 in the second. `token_type_starts` has the position in a request at
which the second text begins. The function below works. But it reads each request's length from the
device and waits each time, and its upload of the ids waits once more.

Take the lengths from `optimistic_seq_lens_cpu`, which the host wrote itself. Upload once, from
pinned memory and without waiting, with as many launches for 16 requests as for 2. Pin the memory if
the platform can: `pin_memory=current().pin_memory`, from `debubble.accelerator`. Keep refusing the
inputs that the function refuses.

You need to know `cumsum`, or any other way from where ids change to the ids.

Edit this file, then run

    .venv/bin/pytest katas/sync_free/test_token_types.py

Stuck?         .venv/bin/debubble hint token_types
Start afresh?  .venv/bin/debubble reset token_types
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from katas.sync_free.given import check_token_types


# Yours to edit, from here on.
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
