"""A warm-up with the largest size alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


def warm_up_kinds(
    store: Callable[[int, torch.dtype], object], most_tokens: int, dtypes: Sequence[torch.dtype]
) -> None:
    store(most_tokens, dtypes[0])
