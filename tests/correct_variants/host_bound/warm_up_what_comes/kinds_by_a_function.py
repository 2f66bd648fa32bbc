"""Finds the kinds that occur by a function, and takes the first number of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def warm_up_kinds(
    store: Callable[[int, torch.dtype], object], most_tokens: int, dtypes: Sequence[torch.dtype]
) -> None:
    """Calls `store(tokens, dtype)` as rarely as possible, so that no later call with 1 to
    `most_tokens` tokens of one of `dtypes` compiles the kernel."""

    def kind(tokens: int) -> str:
        if tokens == 1:
            return "one"
        return "aligned" if tokens % 16 == 0 else "other"

    examples: dict[str, int] = {}
    for tokens in range(1, min(most_tokens, 16) + 1):
        examples.setdefault(kind(tokens), tokens)
    warmed = set()
    for dtype in dtypes:
        if dtype not in warmed:
            warmed.add(dtype)
            for tokens in examples.values():
                store(tokens, dtype)
