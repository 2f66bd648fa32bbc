"""Warm up what will come (chapter 07, easy, 10 minutes).

`store(tokens, dtype)` launches a Triton kernel that gets the number of tokens as an integer. The
kernel is specialised for it, and for the dtype of its tensors. Before the first request the server
warms it up. The function below calls `store` once, with the largest number of tokens and the first
dtype. So the first step of another kind compiles the kernel while its requests wait.

Call `store` so that no step with 1 to `most_tokens` tokens compiles, whatever its dtype. Make no
call that is not needed, and none with more than `most_tokens` tokens. `dtypes` names each dtype
once.

You need to know for which integers Triton compiles a kernel again.

Edit this file, then run

    .venv/bin/pytest katas/host_bound/test_warm_up_what_comes.py

Stuck?         .venv/bin/debubble hint warm_up_what_comes
Start afresh?  .venv/bin/debubble reset warm_up_what_comes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch


# Yours to edit, from here on.
def warm_up_kinds(
    store: Callable[[int, torch.dtype], object], most_tokens: int, dtypes: Sequence[torch.dtype]
) -> None:
    """Calls `store(tokens, dtype)` as rarely as possible, so that no later call with 1 to
    `most_tokens` tokens of one of `dtypes` compiles the kernel."""
    store(most_tokens, dtypes[0])
