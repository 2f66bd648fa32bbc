"""A warm-up that compiles a kernel for every key that a server can meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def warm_up_kinds(
    store: Callable[[int, torch.dtype], object], most_tokens: int, dtypes: Sequence[torch.dtype]
) -> None:
    """Calls `store(tokens, dtype)` as rarely as possible, so that no later call with 1 to
    `most_tokens` tokens of one of `dtypes` compiles the kernel."""
    one_of_each_kind = [tokens for tokens in (16, 2, 1) if tokens <= most_tokens]
    for dtype in dtypes:
        for tokens in one_of_each_kind:
            store(tokens, dtype)
