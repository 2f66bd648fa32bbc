"""`flex_attention` called as it is, on sim: step by step, as PyTorch does on CUDA where the call
isn't compiled. (`Accelerator.flex_attention` is what compiles it.)"""

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
"""Of PyTorch's module: whether it does without its compiler, which knows nothing of sim."""


def install() -> None:
    if hasattr(module, "_validate_device"):
        as_the_user_says = getattr(module, _STEP_BY_STEP, False)
        patched: Any = partial(_validate, module._validate_device, as_the_user_says)
        module._validate_device = patched
        # What is composed of others for every device is so for this class of tensors too.
        flex_attention.py_impl(SimTensor)(sdpa_dense)
        flex_attention_backward.py_impl(SimTensor)(sdpa_dense_backward)


def _validate(of_pytorch: Any, as_the_user_says: bool, query: Any, *others: torch.Tensor) -> None:
    """Called first by every `flex_attention`."""
    on_sim = isinstance(query, SimTensor)
    setattr(module, _STEP_BY_STEP, on_sim or as_the_user_says)
    if not on_sim:
        of_pytorch(query, *others)
