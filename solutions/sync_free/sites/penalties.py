"""The counts that penalties need: which tokens are in a prompt, and how often each was
generated."""

from __future__ import annotations

import numpy as np
import torch

from solutions.common.packed_upload import DeviceArrays, HostArrays, Planned, upload_and_apply

from ..checks.rows import Integers, check_counted
from ..kernels.penalties import check_tables, count_tokens


def bincount(
    req_indices: Integers,
    all_token_ids: torch.Tensor,
    prompt_lens: Integers,
    prefill_lens: Integers,
    prompt_bin_mask: torch.Tensor,
    output_bin_counts: torch.Tensor,
) -> None:
    """Fills the tables' rows of new and resumed requests: counts their tokens from the first on
    (vLLM #41429).

    `req_indices`, `prompt_lens` and `prefill_lens`, [n] on the host, are each request's row in the
    tables, the length of its prompt, and the number of its tokens so far, the prompt included.

    On the device, `all_token_ids` is [max_reqs, max_len] int32. Two tables are written, in the rows
    of these requests only. `prompt_bin_mask` is [max_reqs, ceil(vocab_size / 32)] int32: bit t % 32
    of word t // 32 says whether token t is in the prompt. `output_bin_counts` is [max_reqs,
    vocab_size] int32: how often each token comes after the prompt.

    The host can't see the ids on the device, so an id outside of the vocabulary is skipped and
    writes nowhere. Raises ValueError for rows, lengths and tables that don't fit together.
    """
    check_tables(all_token_ids, prompt_bin_mask, output_bin_counts)
    plan = plan_bincount(req_indices, prompt_lens, prefill_lens, *all_token_ids.shape)
    device, tables = all_token_ids.device, (prompt_bin_mask, output_bin_counts)
    upload_and_apply(plan, device, all_token_ids, *tables)


def plan_bincount(
    req_indices: Integers,
    prompt_lens: Integers,
    prefill_lens: Integers,
    max_reqs: int,
    max_len: int,
) -> Planned[..., None]:
    """Plans the upload of rows and lengths, for a table of tokens [max_reqs, max_len]."""
    check_counted(req_indices, prompt_lens, prefill_lens, max_reqs, max_len)
    longest = max(map(int, prefill_lens), default=0)
    arrays: HostArrays = {
        "rows": np.asarray(req_indices, np.int64),
        "prompt_lens": np.asarray(prompt_lens, np.int32),
        "prefill_lens": np.asarray(prefill_lens, np.int32),
    }

    def apply(
        on_device: DeviceArrays, tokens: torch.Tensor, mask: torch.Tensor, counts: torch.Tensor
    ) -> None:
        for table in (mask, counts):
            table.index_fill_(0, on_device["rows"], 0)
        count_tokens(on_device, tokens, mask, counts, max_prefill_len=longest)

    return Planned(arrays, apply)
