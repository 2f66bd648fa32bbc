"""`flex_attention` without a compiler, on sim: runs step by step, as PyTorch does on CUDA if the
call isn't compiled. (`Accelerator.flex_attention` is the compiled call.)"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    flex_attention_backward,
    sdpa_dense,
    sdpa_dense_backward,
)
from torch.nn.attention import flex_attention as module

from ...tensor import SimTensor

_STEP_BY_STEP = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
"""The name of the flag in PyTorch's module that turns its compiler off, which doesn't know sim."""


def install() -> None:
    if hasattr(module, "_validate_device"):
        as_the_user_says = getattr(module, _STEP_BY_STEP, False)
        patched: Any = partial(_validate, module._validate_device, as_the_user_says)
        module._validate_device = patched
        # The step-by-step implementations for all devices serve this class of tensors too.
        flex_attention.py_impl(SimTensor)(sdpa_dense)
        flex_attention_backward.py_impl(SimTensor)(sdpa_dense_backward)


def _validate(of_pytorch: Any, as_the_user_says: bool, query: Any, *others: torch.Tensor) -> None:
    """Replaces the device check with which each `flex_attention` begins: turns PyTorch's compiler
    off if `query` is on sim, else runs PyTorch's own check."""
    on_sim = isinstance(query, SimTensor)
    setattr(module, _STEP_BY_STEP, on_sim or as_the_user_says)
    if not on_sim:
        of_pytorch(query, *others)
