"""Tries one number of each kind: 1, others, multiples of 16."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def warm_up_kinds(
    store: Callable[[int, torch.dtype], object], most_tokens: int, dtypes: Sequence[torch.dtype]
) -> None:
    """Calls `store(tokens, dtype)` as rarely as possible, so that no later call with 1 to
    `most_tokens` tokens of one of `dtypes` compiles the kernel."""
    for dtype in dict.fromkeys(dtypes):
        for tokens in (16, 2, 1):
            if tokens <= most_tokens:
                store(tokens, dtype)
