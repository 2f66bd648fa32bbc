"""Counting tokens as it was: six small uploads, and the host waits for each of them."""

from __future__ import annotations

import torch

from ..packed.penalties import Integers, count_tokens
from ..parts.before.clear_rows import clear_rows


def bincount(
    req_indices: Integers,
    all_token_ids: torch.Tensor,
    prompt_lens: Integers,
    prefill_lens: Integers,
    prompt_bin_mask: torch.Tensor,
    output_bin_counts: torch.Tensor,
) -> None:
    """Counts the tokens of new and resumed requests from the start. Six host syncs."""
    device = all_token_ids.device
    clear_rows(req_indices, (prompt_bin_mask, output_bin_counts))
    on_device = {
        "rows": torch.tensor(req_indices, dtype=torch.int64, device=device),
        "prompt_lens": torch.tensor(prompt_lens, dtype=torch.int32, device=device),
        "prefill_lens": torch.tensor(prefill_lens, dtype=torch.int32, device=device),
    }
    count_tokens(
        on_device,
        all_token_ids,
        prompt_bin_mask,
        output_bin_counts,
        max_prefill_len=max(map(int, prefill_lens), default=0),
    )
